// Copies the bytes between a screen's socket and a channel. Knows nothing of the protocol.
import type { Duplex } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { CallRefused, ChannelLost, freeMemory } from '@dormouse/link'
import type { Log } from '@dormouse/process'

/** Copies in both directions, with back-pressure, until one side ends, and then ends the other. */
export async function joinScreen(screen: Duplex, channel: Duplex, log: Log): Promise<void> {
  try {
    await Promise.all([copyOut(screen, channel), pipeline(channel, screen)])
  } catch (error) {
    // The viewer or the desktop is gone: every screen ends so.
    const isUsual = error instanceof ChannelLost || error instanceof CallRefused || isClose(error)
    if (!isUsual) log.warn({ err: error }, 'a screen’s connection ended unexpectedly')
  }
}

/** One chunk at a time, each when the one before has been sent. Then its memory is released. */
async function copyOut(screen: Duplex, channel: Duplex): Promise<void> {
  for await (const chunk of screen.iterator({ destroyOnReturn: false })) {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    channel.write(chunk, (error) => (error ? reject(error) : resolve()))
    await promise
    freeMemory(chunk)
  }
  channel.end()
}

const closeCodes = ['ERR_STREAM_PREMATURE_CLOSE', 'ERR_STREAM_DESTROYED', 'ECONNRESET', 'EPIPE', 'ABORT_ERR']
const isClose = (error: unknown): boolean => closeCodes.includes((error as NodeJS.ErrnoException).code ?? '')
