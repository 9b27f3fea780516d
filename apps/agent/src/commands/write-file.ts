// Puts a file into the guest of an awake desktop; its bytes come over a channel of their own.
import { addAbortSignal } from 'node:stream'
import { Refusal } from '@dormouse/contract'
import { ChannelLost, DialRefused, LinkLost } from '@dormouse/link'
import { awakeGuest, inTime, whileAwake } from '../guest/awake.ts'
import type { CommandHandler } from './room.ts'

export const writeFile: CommandHandler<'guest.writeFile'> = async ({ ground }, wish, given, dialBack) => {
  const { path, mode, stepTimeoutSecs: secs } = wish
  const upload = await inTime(awakeGuest(ground, wish).createFile(path, mode), secs)
  using awake = whileAwake(ground, wish, given)
  const { signal } = awake
  try {
    const channel = addAbortSignal(signal, await dialBack(wish.channel, signal))
    // Its failures are met where it is read; one that comes later is no failure.
    channel.on('error', () => undefined)
    try {
      for await (const bytes of channel) await inTime(upload.write(bytes), secs)
      return { size: await inTime(upload.commit(), secs) }
    } finally {
      channel.destroy()
    }
  } catch (error) {
    await upload.abandon()
    throw brokenOff(error)
  }
}

/** A transfer that its other end gave up is no fault of ours. */
export function brokenOff(error: unknown): unknown {
  if (error instanceof Refusal) return error
  const lost = [ChannelLost, DialRefused, LinkLost].some((kind) => error instanceof kind)
  const stopped = error instanceof Error && error.name === 'AbortError'
  if (stopped && error.cause instanceof Refusal) return error.cause
  return lost || stopped ? new Refusal('host_unreachable', 'the transfer broke off') : error
}
