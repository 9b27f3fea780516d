// Puts a file into the guest of an awake desktop; its bytes come over a channel of their own.
import { addAbortSignal } from 'node:stream'
import { type CommandPayload, Refusal } from '@dormouse/contract'
import { ChannelLost, DialRefused, LinkLost } from '@dormouse/link'
import type { DialBack } from '../control.ts'
import { awakeGuest, whileAwake } from '../desktops/awake-guest.ts'
import type { FileUpload } from '../driver/guest-transport.ts'
import { fileStep } from '../guest/file-step.ts'
import type { CommandHandler } from './room.ts'

/** A guest that cannot be reached sweeps up by itself. */
const sweepSecs = 1

type Wish = CommandPayload<'guest.writeFile'>

export const writeFile: CommandHandler<'guest.writeFile'> = async ({ ground, transfers }, wish, given, dialBack) => {
  const { path, mode, stepTimeoutSecs: secs } = wish
  const guest = awakeGuest(ground, wish)
  using awake = whileAwake(ground, wish, given)
  const { signal } = awake
  const move = async () => {
    const upload = await fileStep(guest.createFile(path, mode), secs, signal, (late) => late.abandon())
    try {
      return await fill(upload, wish, signal, dialBack)
    } catch (error) {
      const why = brokenOff(error)
      const swept = fileStep(upload.abandon(), sweepSecs).catch(() => undefined)
      if (!(why instanceof Refusal) || why.code !== 'guest_unavailable') await swept
      throw why
    }
  }
  try {
    return await transfers.run(wish.desktopId, wish.queueTimeoutSecs, signal, move)
  } catch (error) {
    throw brokenOff(error)
  }
}

async function fill(upload: FileUpload, wish: Wish, signal: AbortSignal, dialBack: DialBack) {
  const secs = wish.stepTimeoutSecs
  const channel = addAbortSignal(signal, await dialBack(wish.channel, signal))
  try {
    for await (const bytes of channel) await fileStep(upload.write(bytes), secs, signal)
    return { size: await fileStep(upload.commit(), secs, signal) }
  } finally {
    channel.destroy()
  }
}

/** A transfer that its other end gave up is no fault of ours. */
export function brokenOff(error: unknown): unknown {
  if (error instanceof Refusal) return error
  // Streams that heard more than one reason to end tell all of them, the first one first.
  if (error instanceof AggregateError) return brokenOff(error.errors[0])
  const lost = [ChannelLost, DialRefused, LinkLost].some((kind) => error instanceof kind)
  const stopped = error instanceof Error && error.name === 'AbortError'
  if (stopped && error.cause instanceof Refusal) return error.cause
  return lost || stopped ? new Refusal('host_unreachable', 'the transfer broke off') : error
}
