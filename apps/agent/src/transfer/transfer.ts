// One move's connection between two agents: named streams, a heartbeat beside them, and one end for all. When anything goes
// wrong all streams are closed, because libvirt waits forever on one that is silent. Knows no desktop and no hypervisor.
import type { Duplex } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import type { BytePace, Log } from '@dormouse/process'
import { pump } from './pump.ts'

export interface TransferTimes {
  /** Pause between two beats. */
  beatMs: number
  /** Without a beat for this long, the other side counts as lost. */
  silentMs: number
  /** How long a stream's receiver may take nothing while bytes wait for it. */
  stallMs: number
}

export const transferTimes: TransferTimes = { beatMs: 1_000, silentMs: 8_000, stallMs: 30_000 }

const writeBytes = 64 * 1024

/** The stream of the heartbeat. */
export const beatName = 'beat'
/** What a stream may be called. */
export const streamName = /^[a-z]{1,16}$/

export interface TransferOptions {
  moveId: string
  pace: BytePace
  log: Log
  times?: TransferTimes
}

export class MoveTransfer {
  readonly #options: TransferOptions
  readonly #times: TransferTimes
  readonly #streams = new Set<Duplex>()
  readonly #ended = new AbortController()
  #bytes = 0

  constructor(options: TransferOptions) {
    this.#options = options
    this.#times = options.times ?? transferTimes
  }

  /** Aborts with the reason when the transfer has ended, in whatever way. */
  get ended(): AbortSignal {
    return this.#ended.signal
  }

  /** How many bytes it has carried, in both directions. */
  get bytes(): number {
    return this.#bytes
  }

  get log(): Log {
    return this.#options.log
  }

  /** From now on the stream ends with the transfer, and an error of it ends the transfer. */
  keep<S extends Duplex>(stream: S): S {
    stream.on('error', (error) => this.end(error))
    if (this.ended.aborted) {
      stream.destroy()
      return stream
    }
    this.#streams.add(stream)
    stream.once('close', () => this.#streams.delete(stream))
    return stream
  }

  /** Joins two streams, each with its half closes. A failure of either ends the transfer. */
  join(near: Duplex, far: Duplex): void {
    const options = {
      pace: this.#options.pace,
      stallMs: this.#times.stallMs,
      count: (bytes: number) => {
        this.#bytes += bytes
      },
      fail: (error: Error) => this.end(error),
    }
    this.keep(near)
    this.keep(far)
    pump(near, far, options)
    pump(far, near, options)
  }

  /**
   * Writes at the transfer's pace, and returns when the stream needs the bytes no more. Throws if a part of them is not
   * taken for too long.
   */
  async send(stream: Duplex, bytes: Uint8Array): Promise<void> {
    this.ended.throwIfAborted()
    const paced = this.pause(bytes.length)
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const late = new Error(`nothing was taken for ${this.#times.stallMs} ms`)
    const timer = setTimeout(() => this.end(late), this.#times.stallMs)
    const ended = () => reject(this.ended.reason)
    this.ended.addEventListener('abort', ended, { once: true })
    let left = Math.max(1, Math.ceil(bytes.length / writeBytes))
    const taken = (error?: Error | null) => {
      if (error) return reject(error)
      timer.refresh()
      if (--left === 0) resolve()
    }
    try {
      // A long write costs TLS several times as much for each byte.
      for (let at = 0; at < bytes.length || at === 0; at += writeBytes) {
        stream.write(bytes.subarray(at, at + writeBytes), taken)
      }
      await promise
      clearTimeout(timer)
      await paced
    } catch (error) {
      this.ended.throwIfAborted()
      throw error
    } finally {
      clearTimeout(timer)
      this.ended.removeEventListener('abort', ended)
    }
  }

  /** Counts bytes that were read from a stream, or are about to be written, and waits for as long as the pace requires. */
  async pause(bytes: number): Promise<void> {
    this.#bytes += bytes
    const waitMs = this.#options.pace.spend(bytes)
    if (waitMs > 0) await sleep(waitMs, undefined, { ref: false })
  }

  /** Sends beats, and ends the transfer when none comes any more. */
  beat(stream: Duplex): void {
    this.keep(stream)
    let heardAt = performance.now()
    stream.on('data', () => {
      heardAt = performance.now()
    })
    const timer = setInterval(() => {
      // A beat that waits in the buffer is enough.
      if (stream.writableLength === 0) stream.write('.')
      if (performance.now() - heardAt > this.#times.silentMs) this.end(new Error('the other host is silent'))
    }, this.#times.beatMs)
    stream.once('end', () => this.end(new Error('the other host has ended the move')))
    stream.once('close', () => {
      clearInterval(timer)
      this.end(new Error('the connection to the other host was lost'))
    })
  }

  /** Closes every stream at once. */
  end(reason: Error = new Error('the move was ended')): void {
    if (this.ended.aborted) return
    this.#options.log.debug({ moveId: this.#options.moveId, why: reason.message, bytes: this.#bytes }, 'transfer ended')
    this.#ended.abort(reason)
    for (const stream of this.#streams) stream.destroy()
  }
}
