// Copies one direction of a stream: with back-pressure, at a pace, and never waiting for ever. Knows no carrier.
import type { Duplex } from 'node:stream'
import type { BytePace } from '@dormouse/process'

/** What a stream may hold that it has not sent: with less, each chunk waits until the one before it has left. */
const aheadBytes = 256 * 1024

interface PumpOptions {
  pace: BytePace
  /** How long the receiver may take nothing while bytes wait for it. */
  stallMs: number
  count: (bytes: number) => void
  /** Called at most once, when the copy cannot go on. */
  fail: (error: Error) => void
}

/** Passes bytes and the half close on. An end without a half close, an error and a stall are failures. */
export function pump(from: Duplex, to: Duplex, { pace, stallMs, count, fail }: PumpOptions): void {
  let ended = false
  let stalled: NodeJS.Timeout | undefined
  let failed = (error: Error) => {
    failed = () => undefined
    clearTimeout(stalled)
    fail(error)
  }
  const lost = (error?: Error | null) => failed(error ?? new Error('the stream was closed before its end'))
  const drained = (waitMs: number) => {
    clearTimeout(stalled)
    if (waitMs > 0) setTimeout(() => from.resume(), waitMs)
    else from.resume()
  }
  from.on('data', (chunk: Buffer) => {
    count(chunk.length)
    const waitMs = pace.spend(chunk.length)
    const isFull = !to.write(chunk) && to.writableLength >= aheadBytes
    if (!isFull && waitMs === 0) return
    from.pause()
    if (!isFull) {
      drained(waitMs)
      return
    }
    stalled = setTimeout(() => failed(new Error(`nothing was taken for ${stallMs} ms`)), stallMs)
    to.once('drain', () => drained(waitMs))
  })
  from.once('end', () => {
    ended = true
    to.end()
  })
  from.once('close', () => ended || lost(from.errored))
  to.once('close', () => to.writableFinished || lost(to.errored))
  // A socket that was accepted paused does not flow by itself.
  from.resume()
}
