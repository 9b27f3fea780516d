// The bytes between a screen's socket and a channel. Knows nothing of what they say.
import type { Duplex } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { CallRefused, ChannelLost, letGo } from '@dormouse/link'
import type { Log } from '@dormouse/process'

/** Carries both ways until one side ends, and then ends the other. Each reader sets the pace of its writer. */
export async function joinScreen(screen: Duplex, channel: Duplex, log: Log): Promise<void> {
  try {
    await Promise.all([show(screen, channel), pipeline(channel, screen)])
  } catch (error) {
    // Whoever looked has gone, or the desktop has: how every screen ends.
    const usual = error instanceof ChannelLost || error instanceof CallRefused || isCut(error)
    if (!usual) log.warn({ err: error }, 'a screen broke off')
  }
}

/** One piece after another, each when the one before has left. */
async function show(screen: Duplex, channel: Duplex): Promise<void> {
  for await (const piece of screen.iterator({ destroyOnReturn: false })) {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    channel.write(piece, (error) => (error ? reject(error) : resolve()))
    await promise
    letGo(piece)
  }
  channel.end()
}

const cuts = ['ERR_STREAM_PREMATURE_CLOSE', 'ERR_STREAM_DESTROYED', 'ECONNRESET', 'EPIPE', 'ABORT_ERR']
const isCut = (error: unknown): boolean => cuts.includes((error as NodeJS.ErrnoException).code ?? '')
