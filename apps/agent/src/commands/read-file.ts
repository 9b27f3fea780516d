// Gives a file out of the guest of an awake desktop; its bytes go over a channel of their own, as fast as they are taken.
import { pipeline } from 'node:stream/promises'
import type { CommandPayload } from '@dormouse/contract'
import type { DialBack } from '../control.ts'
import { awakeGuest, whileAwake } from '../desktops/awake-guest.ts'
import type { FileDownload } from '../driver/guest-transport.ts'
import { fileStep } from '../guest/file-step.ts'
import type { CommandHandler } from './room.ts'
import { brokenOff } from './write-file.ts'

type Wish = CommandPayload<'guest.readFile'>

export const readFile: CommandHandler<'guest.readFile'> = async ({ ground, transfers }, wish, given, dialBack) => {
  const guest = awakeGuest(ground, wish)
  using awake = whileAwake(ground, wish, given)
  const { signal } = awake
  const move = async () => {
    const file = await fileStep(guest.openFile(wish.path), wish.stepTimeoutSecs, signal, (late) => late.close())
    try {
      return await empty(file, wish, signal, dialBack)
    } finally {
      // A guest that does not hear it has let go.
      file.close().catch(() => undefined)
    }
  }
  try {
    return await transfers.run(wish.desktopId, wish.queueTimeoutSecs, signal, move)
  } catch (error) {
    throw brokenOff(error)
  }
}

async function empty(file: FileDownload, wish: Wish, signal: AbortSignal, dialBack: DialBack) {
  const channel = await dialBack(wish.channel, signal)
  // Only a channel whose other direction is read, too, comes to its end.
  channel.resume()
  let size = 0
  await pipeline(
    async function* () {
      for await (const bytes of pieces(file, wish.stepTimeoutSecs, signal)) {
        size += bytes.length
        yield bytes
      }
    },
    channel,
    { signal },
  )
  return { size }
}

async function* pieces(file: FileDownload, stepTimeoutSecs: number, signal: AbortSignal): AsyncGenerator<Buffer> {
  for (;;) {
    const bytes = await fileStep(file.read(), stepTimeoutSecs, signal)
    if (!bytes) return
    yield bytes
  }
}
