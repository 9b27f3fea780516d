// The queue in front of the engine. It bounds the operations in flight, in all and on each host, and shares the slots fairly
// between organisations. Knows neither what an operation does nor the database: after a change of leader it is filled again
// from the stored operations.
import { Refusal } from '@dormouse/contract'

export interface WorkQueueOptions {
  /** The most operations in flight. Those that overtake have as many slots of their own. */
  inAll: number
  /** The most operations in flight on that host. */
  onHost(hostId: string): number
  /** How long an operation may wait for its first slot. */
  limitMs: number
}

/** Operations that are being placed have no host yet. A placed one waits for its host with this slot still taken. */
const placingAtOnce = 16

export interface Ticket {
  id: string
  orgId: string
  /** Null if no host is chosen yet. */
  hostId: string | null
  /** Waits only for others that overtake: it has slots of its own. */
  overtakes: boolean
  /** Has begun before, on this replica or on an earlier leader: it goes first, and waits without a limit. */
  begun: boolean
  /** How long it has waited before, in milliseconds. */
  waitedMs: number
}

/** A slot. Release it once the work is done, or if the next one is taken. */
export interface Slot {
  hostId: string | null
  release(): void
}

interface Waiting {
  ticket: Ticket
  place: string
  /** Its number in its line. */
  number: number
  /** By the monotonic clock; infinite if it waits without a limit. */
  until: number
  take(slot: Slot): void
  fail(error: Error): void
}

const sweepMs = 1_000

export class WorkQueue {
  readonly #work: Lane
  readonly #overtaking: Lane
  readonly #limitMs: number
  #sweeping: NodeJS.Timeout | undefined

  constructor({ inAll, onHost, limitMs }: WorkQueueOptions) {
    this.#work = new Lane(inAll, onHost)
    this.#overtaking = new Lane(inAll, onHost)
    this.#limitMs = limitMs
  }

  /** How many operations have a slot, and how many wait for one. */
  get counts(): { taken: number; waiting: number } {
    const [one, other] = [this.#work, this.#overtaking]
    return { taken: one.taken + other.taken, waiting: one.waiting.size + other.waiting.size }
  }

  /** A slot, if one is free and no operation waits for it. */
  tryEnter({ hostId, overtakes }: Pick<Ticket, 'hostId' | 'overtakes'>): Slot | undefined {
    return (overtakes ? this.#overtaking : this.#work).tryTake(hostId)
  }

  /** Waits for a slot. Refuses with `waited_too_long`, or rejects with the signal's reason. */
  async enter(ticket: Ticket, signal: AbortSignal): Promise<Slot> {
    signal.throwIfAborted()
    const lane = ticket.overtakes ? this.#overtaking : this.#work
    const { promise, resolve, reject } = Promise.withResolvers<Slot>()
    const until = ticket.begun ? Infinity : performance.now() + this.#limitMs - ticket.waitedMs
    lane.add(ticket, until, resolve, reject)
    const leave = () => {
      if (lane.drop(ticket.id)) reject(signal.reason)
    }
    signal.addEventListener('abort', leave, { once: true })
    this.#sweeping ??= setInterval(() => this.#sweep(), sweepMs).unref()
    return promise.finally(() => signal.removeEventListener('abort', leave))
  }

  /** About how many operations get a slot before this one; undefined if it does not wait. */
  ahead(id: string): number | undefined {
    return this.#work.ahead(id) ?? this.#overtaking.ahead(id)
  }

  #sweep(): void {
    const now = performance.now()
    for (const lane of [this.#work, this.#overtaking]) lane.failLate(now)
    if (this.counts.waiting > 0) return
    clearInterval(this.#sweeping)
    this.#sweeping = undefined
  }
}

/** No host has an empty id: the place of those without a host. */
const anywhere = ''

/** First come, first served, for one organisation and one place. */
class Line {
  readonly #waiting = new Map<string, Waiting>()
  #joined = 0

  get size(): number {
    return this.#waiting.size
  }

  get first(): Waiting | undefined {
    return this.#waiting.values().next().value
  }

  join(waiting: Waiting): void {
    waiting.number = this.#joined++
    this.#waiting.set(waiting.ticket.id, waiting)
  }

  leave(id: string): void {
    this.#waiting.delete(id)
  }

  /** How many are before it; at most, if some left the line early. */
  before({ number }: Waiting): number {
    return Math.min(this.size - 1, number - (this.first?.number ?? number))
  }
}

/** Takes turns between organisations. A host without a free slot delays nothing but its own operations. */
class Lane {
  readonly #inAll: number
  readonly #onHost: (hostId: string) => number
  readonly waiting = new Map<string, Waiting>()
  /** By organisation in the order of their turns, then by place. */
  readonly #lines = new Map<string, Map<string, Line>>()
  /** Those that have begun before, by place. */
  readonly #begun = new Map<string, Line>()
  readonly #takenAt = new Map<string, number>()
  readonly #waitingAt = new Map<string, number>()
  /** Places with a free slot for which an operation waits. */
  readonly #open = new Set<string>()
  taken = 0

  constructor(inAll: number, onHost: (hostId: string) => number) {
    this.#inAll = inAll
    this.#onHost = onHost
  }

  add(ticket: Ticket, until: number, take: (slot: Slot) => void, fail: (error: Error) => void): void {
    const place = ticket.hostId ?? anywhere
    const waiting: Waiting = { ticket, place, number: 0, until, take, fail }
    this.waiting.set(ticket.id, waiting)
    this.#lineOf(waiting).join(waiting)
    this.#count(this.#waitingAt, place, 1)
    this.#review(place)
    this.#serve()
  }

  tryTake(hostId: string | null): Slot | undefined {
    const place = hostId ?? anywhere
    const isFree = this.taken < this.#inAll && (this.#takenAt.get(place) ?? 0) < this.#limitOf(place)
    return isFree && !this.#waitingAt.has(place) ? this.#take(hostId, place) : undefined
  }

  /** Removes one that waits; false if it does not. */
  drop(id: string): boolean {
    const waiting = this.waiting.get(id)
    if (!waiting) return false
    const { ticket, place } = waiting
    this.waiting.delete(id)
    const line = this.#lineOf(waiting)
    line.leave(id)
    if (line.size === 0) this.#removeLine(ticket, place)
    this.#count(this.#waitingAt, place, -1)
    this.#review(place)
    return true
  }

  failLate(now: number): void {
    for (const [id, { until, fail }] of this.waiting) {
      if (until <= now && this.drop(id)) fail(new Refusal('waited_too_long'))
    }
  }

  /** Those before it in its own line, and as many of each other organisation at the same place. */
  ahead(id: string): number | undefined {
    const waiting = this.waiting.get(id)
    if (!waiting) return undefined
    const { ticket, place } = waiting
    const begun = this.#begun.get(place)
    const before = this.#lineOf(waiting).before(waiting)
    if (ticket.begun) return before
    let ahead = before + (begun?.size ?? 0)
    for (const [orgId, lines] of this.#lines) {
      if (orgId !== ticket.orgId) ahead += Math.min(lines.get(place)?.size ?? 0, before + 1)
    }
    return ahead
  }

  #lineOf({ ticket, place }: Waiting): Line {
    if (ticket.begun) return getOrMake(this.#begun, place, () => new Line())
    const lines = getOrMake(this.#lines, ticket.orgId, () => new Map<string, Line>())
    return getOrMake(lines, place, () => new Line())
  }

  #removeLine({ orgId, begun }: Ticket, place: string): void {
    if (begun) return void this.#begun.delete(place)
    const lines = this.#lines.get(orgId)
    lines?.delete(place)
    if (lines?.size === 0) this.#lines.delete(orgId)
  }

  #serve(): void {
    while (this.taken < this.#inAll) {
      const next = this.#next()
      if (!next) return
      this.drop(next.ticket.id)
      next.take(this.#take(next.ticket.hostId, next.place))
    }
  }

  #next(): Waiting | undefined {
    for (const place of this.#open) {
      const first = this.#begun.get(place)?.first
      if (first) return first
    }
    for (const [orgId, lines] of this.#lines) {
      const line = this.#firstOpen(lines)
      if (!line) continue
      // Its next turn comes after everyone else's.
      this.#lines.delete(orgId)
      this.#lines.set(orgId, lines)
      return line.first
    }
    return undefined
  }

  /** The organisation's line at the place whose turn it is. */
  #firstOpen(lines: Map<string, Line>): Line | undefined {
    for (const place of lines.size < this.#open.size ? lines.keys() : this.#open) {
      const line = lines.get(place)
      if (line && this.#open.has(place)) return line
    }
    return undefined
  }

  #take(hostId: string | null, place: string): Slot {
    this.taken++
    this.#count(this.#takenAt, place, 1)
    this.#review(place)
    let held = true
    const release = () => {
      if (!held) return
      held = false
      this.taken--
      this.#count(this.#takenAt, place, -1)
      this.#review(place)
      this.#serve()
    }
    return { hostId, release }
  }

  /** The place goes to the end of the open ones, so that each has its turn. */
  #review(place: string): void {
    this.#open.delete(place)
    if (this.#waitingAt.has(place) && (this.#takenAt.get(place) ?? 0) < this.#limitOf(place)) this.#open.add(place)
  }

  #limitOf(place: string): number {
    return place === anywhere ? placingAtOnce : this.#onHost(place)
  }

  #count(counts: Map<string, number>, place: string, by: number): void {
    const count = (counts.get(place) ?? 0) + by
    if (count > 0) counts.set(place, count)
    else counts.delete(place)
  }
}

function getOrMake<K, V>(map: Map<K, V>, key: K, make: () => V): V {
  const found = map.get(key)
  if (found !== undefined) return found
  const made = make()
  map.set(key, made)
  return made
}
