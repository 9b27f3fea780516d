// Copies one direction of a stream: with back-pressure, at a pace, and never waiting forever. Knows no transfer.
import { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { BytePace } from '@dormouse/process'
import { freeChunk } from '../mechanics/free-chunk.ts'

/**
 * What a stream may hold that it has not sent. Bytes pass four processes. With less, each waits until the next one has had its
 * turn: on a busy machine that costs a quarter of the speed.
 */
const mostAheadBytes = 2 * 1024 * 1024
/** It takes more again once it holds no more than this, so that it never runs dry. */
const refillBytes = 1024 * 1024

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
  // Other streams may pass on the memory that their writer still uses.
  const isOurs = from instanceof Socket && to instanceof Socket
  let ended = false
  let isFull = false
  let dueAt = 0
  let stalled: NodeJS.Timeout | undefined
  let failed = (error: Error) => {
    failed = () => undefined
    isFull = false
    clearTimeout(stalled)
    fail(error)
  }
  const lost = (error?: Error | null) => failed(error ?? new Error('the stream was closed before its end'))
  const goOn = () => {
    const waitMs = dueAt - performance.now()
    if (waitMs > 0) setTimeout(() => from.resume(), waitMs)
    else from.resume()
  }
  const taken = () => {
    if (!isFull) return
    stalled?.refresh()
    if (to.writableLength > refillBytes) return
    isFull = false
    clearTimeout(stalled)
    goOn()
  }
  from.on('data', (chunk: Buffer) => {
    count(chunk.length)
    const waitMs = pace.spend(chunk.length)
    dueAt = performance.now() + waitMs
    to.write(chunk, (error) => {
      if (error) return
      if (isOurs) freeChunk(chunk)
      taken()
    })
    isFull = to.writableLength >= mostAheadBytes
    if (!isFull && waitMs === 0) return
    from.pause()
    clearTimeout(stalled)
    if (isFull) stalled = setTimeout(() => failed(new Error(`nothing was taken for ${stallMs} ms`)), stallMs)
    else goOn()
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
