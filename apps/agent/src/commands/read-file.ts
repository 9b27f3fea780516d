// Gives a file out of the guest of an awake desktop; its bytes go over a channel of their own, as fast as they are taken.
import { pipeline } from 'node:stream/promises'
import { awakeGuest, inTime, whileAwake } from '../guest/awake.ts'
import type { FileDownload } from '../guest/transport.ts'
import type { CommandHandler } from './room.ts'
import { brokenOff } from './write-file.ts'

export const readFile: CommandHandler<'guest.readFile'> = async ({ ground }, wish, given, dialBack) => {
  const secs = wish.stepTimeoutSecs
  const file = await inTime(awakeGuest(ground, wish).openFile(wish.path), secs)
  using awake = whileAwake(ground, wish, given)
  const { signal } = awake
  try {
    const channel = await dialBack(wish.channel, signal)
    // Its failures are met where it is written; one that comes later is no failure.
    channel.on('error', () => undefined)
    let size = 0
    await pipeline(
      async function* () {
        for await (const bytes of pieces(file, secs)) {
          size += bytes.length
          yield bytes
        }
      },
      channel,
      { signal },
    )
    return { size }
  } catch (error) {
    throw brokenOff(error)
  } finally {
    await file.close()
  }
}

async function* pieces(file: FileDownload, stepTimeoutSecs: number): AsyncGenerator<Buffer> {
  for (;;) {
    const bytes = await inTime(file.read(), stepTimeoutSecs)
    if (!bytes) return
    yield bytes
  }
}
