// The bytes between a screen's socket and a channel. Knows nothing of what they say.
import type { Duplex } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { CallRefused, ChannelLost } from '@dormouse/link'
import type { Log } from '@dormouse/process'

/** Carries both ways until one side ends, and then ends the other. Each reader sets the pace of its writer. */
export async function joinScreen(screen: Duplex, channel: Duplex, log: Log): Promise<void> {
  try {
    await pipeline(screen, channel, screen)
  } catch (error) {
    // Whoever looked has gone, or the desktop has: how every screen ends.
    const usual = error instanceof ChannelLost || error instanceof CallRefused || isCut(error)
    if (!usual) log.warn({ err: error }, 'a screen broke off')
  }
}

const cuts = ['ERR_STREAM_PREMATURE_CLOSE', 'ECONNRESET', 'EPIPE', 'ABORT_ERR']
const isCut = (error: unknown): boolean => cuts.includes((error as NodeJS.ErrnoException).code ?? '')
