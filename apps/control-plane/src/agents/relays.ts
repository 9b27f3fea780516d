// Joins channels of two hosts that cannot reach each other, so that a desktop can move between them. The hosts encrypt what
// they send: a relay can neither read nor change it. Knows no desktop, and only the id of an operation.
import { setTimeout as sleep } from 'node:timers/promises'
import { type Relay as RelayRequest, refusalWithCause } from '@dormouse/contract'
import { type Channel, freeMemory } from '@dormouse/link'
import { BytePace, type Log } from '@dormouse/process'
import type { Awaited, Channels } from './channels.ts'

/** Heartbeat, disk and memory. */
const streams = 3
const mostInAll = 8
const mostOfOneHost = 2
/** A chunk with fewer bytes, such as a heartbeat, never waits for the pace. */
const leastPacedBytes = 1_024

export interface RelayTimes {
  /** How long a host may take to dial its channels back. */
  dialMs: number
  /** A relay closes after this long without a byte. Hosts send heartbeats. */
  silentMs: number
}

const defaultTimes: RelayTimes = { dialMs: 30_000, silentMs: 30_000 }

export interface RelaysOptions {
  channels: Channels
  /** The limit for all relays of this replica together, per second. */
  mibPerSec: number
  log: Log
  times?: RelayTimes
}

/** What a relay is for. */
export interface RelayPurpose {
  operationId: string
  hostIds: readonly [string, string]
  /** The relay closes when it aborts. */
  signal: AbortSignal
}

interface RelayOptions {
  channels: Channels
  pace: BytePace
  times: RelayTimes
  count: (bytes: number) => void
  closed: (reason: Error, bytes: number) => void
}

export class Relays {
  readonly #options: RelaysOptions
  readonly #pace: BytePace
  readonly #open = new Map<string, { relay: Relay; hostIds: readonly string[] }>()
  #bytes = 0

  constructor(options: RelaysOptions) {
    this.#options = options
    this.#pace = new BytePace(options.mibPerSec)
  }

  /** The number of open relays. */
  get open(): number {
    return this.#open.size
  }

  /** The bytes that all relays have carried. */
  get bytes(): number {
    return this.#bytes
  }

  /**
   * Opens a relay between the two hosts; it replaces an earlier one of the operation. Refuses with `too_many_moves` above a
   * limit. It closes when its signal aborts, when a channel is cut, when both hosts are silent, and by `close`.
   */
  between({ operationId, hostIds, signal }: RelayPurpose): Relay {
    signal.throwIfAborted()
    this.close(operationId, 'the operation tries again')
    this.#requireSpace(hostIds)
    const { channels, times = defaultTimes, log } = this.#options
    const relay = new Relay({
      channels,
      pace: this.#pace,
      times,
      count: (bytes) => {
        this.#bytes += bytes
      },
      closed: ({ message: why }, bytes) => {
        log.info({ operation: operationId, hosts: hostIds, why, bytes }, 'a relay between two hosts was closed')
        this.#open.delete(operationId)
      },
    })
    this.#open.set(operationId, { relay, hostIds })
    relay.closeOn(signal)
    return relay
  }

  /** Closes the relay of the operation, if it has one. */
  close(operationId: string, why = 'the operation no longer needs it'): void {
    this.#open.get(operationId)?.relay.close(new Error(why))
  }

  closeAll(): void {
    for (const { relay } of this.#open.values()) relay.close(new Error('the control plane stops'))
  }

  #requireSpace(hostIds: readonly string[]): void {
    const others = [...this.#open.values()]
    const openOf = (id: string) => others.filter((other) => other.hostIds.includes(id)).length
    if (others.length < mostInAll && hostIds.every((id) => openOf(id) < mostOfOneHost)) return
    throw refusalWithCause(
      'too_many_moves',
      `at most ${mostInAll} moves, and ${mostOfOneHost} of one host, pass through a replica at once; this one waits`,
    )
  }
}

export class Relay {
  readonly #options: RelayOptions
  readonly #ended = new AbortController()
  readonly #awaited: Awaited[] = []
  readonly #channels = new Set<Channel>()
  readonly #silence: NodeJS.Timeout
  #bytes = 0

  constructor(options: RelayOptions) {
    this.#options = options
    this.#silence = setTimeout(() => this.close(new Error('the hosts are silent')), options.times.silentMs).unref()
  }

  closeOn(signal: AbortSignal): void {
    const stop = () => this.close(new Error('the operation ended on this replica'))
    signal.addEventListener('abort', stop, { once: true, signal: this.#ended.signal })
  }

  /**
   * Expects the host to dial back one channel per stream. Call it once for each of the two hosts; channels with the same
   * position are joined. Bytes that one host sends before that wait, up to a channel's window.
   */
  expect(hostId: string): RelayRequest {
    const { channels, times } = this.#options
    this.#ended.signal.throwIfAborted()
    this.#silence.refresh()
    const mine = Array.from({ length: streams }, () => channels.expect(hostId, times.dialMs))
    const theirs = this.#awaited.splice(0)
    this.#awaited.push(...theirs, ...mine)
    for (const { channel } of mine) channel.then((open) => this.#keep(open)).catch((error) => this.close(error))
    for (const [at, one] of theirs.entries()) void this.#join(one.channel, mine[at]!.channel)
    return { channels: mine.map(({ token }) => token) }
  }

  /** Closes all channels, and expects no more. */
  close(reason: Error = new Error('the move has failed')): void {
    if (this.#ended.signal.aborted) return
    this.#ended.abort(reason)
    clearTimeout(this.#silence)
    for (const awaited of this.#awaited) awaited.cancel()
    for (const channel of this.#channels) channel.destroy()
    this.#options.closed(reason, this.#bytes)
  }

  /** Closing all when one is cut tells both hosts that the move has failed. */
  #keep(channel: Channel): void {
    if (this.#ended.signal.aborted) return void channel.destroy()
    this.#channels.add(channel)
    channel.once('close', () => {
      this.#channels.delete(channel)
      if (channel.errored) this.close(channel.errored)
      else if (this.#channels.size === 0) this.close(new Error('the hosts have closed it'))
    })
  }

  async #join(one: Promise<Channel>, other: Promise<Channel>): Promise<void> {
    try {
      const [left, right] = await Promise.all([one, other])
      await Promise.all([this.#copy(left, right), this.#copy(right, left)])
    } catch (error) {
      this.close(error as Error)
    }
  }

  /** Sends one chunk at a time, so a slow reader stops the writer. */
  async #copy(from: Channel, to: Channel): Promise<void> {
    const { signal } = this.#ended
    for await (const chunk of from) {
      const { length } = chunk
      this.#silence.refresh()
      this.#bytes += length
      this.#options.count(length)
      await written(to, chunk, signal)
      freeMemory(chunk)
      const waitMs = length < leastPacedBytes ? 0 : this.#options.pace.spend(length)
      if (waitMs > 0) await sleep(waitMs, undefined, { signal })
    }
    to.end()
  }
}

/** Resolves when the bytes have been handed to the network. */
function written(to: Channel, chunk: Buffer, signal: AbortSignal): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const stop = () => reject(signal.reason)
  signal.addEventListener('abort', stop, { once: true })
  to.write(chunk, (error) => (error ? reject(error) : resolve()))
  return promise.finally(() => signal.removeEventListener('abort', stop))
}
