// The clients that follow the log of events at this replica. One reader serves them all: an event is written as text once, and
// only the listeners of its organisation see it.
import { type AdminEventJson, type EventJson, matches, Refusal } from '@dormouse/contract'
import type { Log } from '@dormouse/process'
import { retryWhileUnavailable } from '../db/pool.ts'
import { cursorOf, type Position } from '../events/cursors.ts'
import type { EventFeed } from '../events/feed.ts'
import type { EventQuery, EventRow } from '../events/store.ts'
import type { Principals } from '../principals/service.ts'
import { type EndReason, EventStream } from './event-stream.ts'

export interface ListenersOptions {
  events: EventFeed
  principals: Pick<Principals, 'withdrawn'>
  log: Log
  /** Streams that one organisation may have open at this replica; operators together count as one. */
  perOrg: number
  heartbeatMs: number
}

export interface Listening {
  /** Null: an operator, who sees everything. */
  orgId: string | null
  /** The name of its credential. */
  subject: string | null
  /** When its access token expires, in ms since 1970; null for a key. */
  goodUntil: number | null
  filter: Pick<EventQuery, 'orgId' | 'hostId' | 'desktopId' | 'types' | 'selector' | 'reached'>
}

interface Listener extends Listening {
  stream: EventStream
}

const pageEvents = 200
/** How many parts of the log one page looks at. */
const partsOfPage = 20
const checkEveryMs = 1_000

export class Listeners {
  readonly #options: ListenersOptions
  /** By organisation; those of operators under null. */
  readonly #open = new Map<string | null, Set<Listener>>()
  readonly #opening = new Map<string | null, number>()
  #unfollow: (() => void) | undefined
  #timer: NodeJS.Timeout | undefined
  #beatAt = 0
  #ended: (reason: string) => void = () => undefined

  constructor(options: ListenersOptions) {
    this.#options = options
  }

  /** Open streams. */
  get count(): number {
    return this.#all().length
  }

  /** Calls back with the reason whenever a stream has ended. */
  onEnd(ended: (reason: string) => void): void {
    this.#ended = ended
  }

  /** Events after the position; throws `CursorGone`. Without a position it begins at the oldest. */
  async page(listening: Listening, after: Position | undefined, limit: number) {
    const { events } = this.#options
    await retryWhileUnavailable(() => events.look())
    const from = after ?? (await retryWhileUnavailable(() => events.oldest()))
    const read = (position: Position) => this.#read(position, { ...listening.filter, limit })
    let page = await read(from)
    const isBeforeEnd = () => page.position.seq < events.position.seq
    // A rare event may be far away.
    for (let part = 1; part < partsOfPage && page.events.length === 0 && isBeforeEnd(); part++)
      page = await read(page.position)
    return { ...page, more: isBeforeEnd() }
  }

  #read(after: Position, query: EventQuery) {
    return retryWhileUnavailable(() => this.#options.events.readAfter(after, query))
  }

  /** Opens a stream behind the position, or from now on. Throws `CursorGone`, and `rate_limited` above the limit. */
  async open(listening: Listening, after: Position | undefined): Promise<EventStream> {
    const { events } = this.#options
    const { orgId, filter } = listening
    this.#count(orgId)
    try {
      const start = after ?? (await retryWhileUnavailable(() => events.now()))
      const read = (position: Position) => this.#read(position, { ...filter, limit: pageEvents })
      const first = await read(start)
      const stream = new EventStream(
        {
          first,
          read,
          end: () => events.position,
          blockOf: (event) => blockOf(event, start.lineage, orgId === null),
          closed: (_, reason) => this.#close(listener, reason),
        },
        start,
      )
      const listener: Listener = { ...listening, stream }
      this.#open.set(orgId, (this.#open.get(orgId) ?? new Set()).add(listener))
      this.#follow()
      return stream
    } finally {
      this.#opening.set(orgId, this.#opening.get(orgId)! - 1)
    }
  }

  /** Ends all streams. */
  close(reason: EndReason = 'stopping'): void {
    for (const { stream } of this.#all()) stream.end(reason)
    clearInterval(this.#timer)
  }

  #count(orgId: string | null): void {
    const opening = this.#opening.get(orgId) ?? 0
    const { perOrg } = this.#options
    if ((this.#open.get(orgId)?.size ?? 0) + opening >= perOrg)
      throw new Refusal('rate_limited', `more than ${perOrg} streams of events are open; close some, or share one`)
    this.#opening.set(orgId, opening + 1)
  }

  #all(): Listener[] {
    return [...this.#open.values()].flatMap((some) => [...some])
  }

  #follow(): void {
    if (this.#unfollow) return
    this.#unfollow = this.#options.events.follow({
      saw: (events) => this.#saw(events),
      restarted: () => {
        for (const { stream } of this.#all()) stream.end('restarted')
      },
    })
    this.#timer = setInterval(() => void this.#check(), checkEveryMs).unref()
  }

  #close(listener: Listener, reason: string): void {
    const some = this.#open.get(listener.orgId)
    if (!some?.delete(listener)) return
    if (some.size === 0) this.#open.delete(listener.orgId)
    this.#ended(reason)
    if (reason !== 'client') this.#options.log.info({ reason, org: listener.orgId }, 'a stream of events was ended')
    if (this.#open.size > 0) return
    this.#unfollow?.()
    this.#unfollow = undefined
    clearInterval(this.#timer)
  }

  #saw(events: EventRow[]): void {
    const { lineage } = this.#options.events.position
    for (const event of events) {
      if (event.orgId !== null) this.#offer(event, this.#open.get(event.orgId), () => blockOf(event, lineage, false))
      this.#offer(event, this.#open.get(null), () => blockOf(event, lineage, true))
      if (event.type === 'key.revoked') this.#revoked(new Set([`key:${event.data.key_id}`]))
    }
  }

  #offer(event: EventRow, listeners: Set<Listener> | undefined, text: () => string): void {
    let block: string | undefined
    for (const { stream, filter } of listeners ?? []) {
      if (!passes(event, filter)) continue
      block ??= text()
      stream.offer(event, block)
    }
  }

  #revoked(subjects: Set<string>): void {
    for (const { stream, subject } of this.#all()) if (subject && subjects.has(subject)) stream.end('revoked')
  }

  async #check(): Promise<void> {
    const [all, now] = [this.#all(), Date.now()]
    for (const { stream, goodUntil } of all) if (goodUntil !== null && goodUntil <= now) stream.end('expired')
    if (now - this.#beatAt < this.#options.heartbeatMs) return
    this.#beatAt = now
    for (const { stream } of all) stream.beat()
    const subjects = [...new Set(all.flatMap(({ subject }) => subject ?? []))]
    await this.#options.principals.withdrawn(subjects).then(
      (withdrawn) => this.#revoked(withdrawn),
      (err: unknown) => this.#options.log.debug({ err }, 'the credentials of listeners could not be checked'),
    )
  }
}

function passes(event: EventRow, { orgId, hostId, desktopId, types, selector }: Listening['filter']): boolean {
  return (
    (orgId === undefined || event.orgId === orgId) &&
    (hostId === undefined || event.hostId === hostId) &&
    (desktopId === undefined || event.desktopId === desktopId) &&
    (types === undefined || types.includes(event.type)) &&
    (selector === undefined || (event.desktopId !== null && matches(selector, event.labels ?? {})))
  )
}

export const eventToJson = (event: EventRow, lineage: string): EventJson => ({
  id: cursorOf({ lineage, seq: event.seq }),
  type: event.type as EventJson['type'],
  at: event.at.toISOString(),
  desktop_id: event.desktopId,
  data: event.data,
})

export const eventToAdminJson = (event: EventRow, lineage: string): AdminEventJson => ({
  ...eventToJson(event, lineage),
  type: event.type as AdminEventJson['type'],
  org_id: event.orgId,
  host_id: event.hostId,
})

/** JSON has no line breaks, so the data is one line. */
function blockOf(event: EventRow, lineage: string, forOperators: boolean): string {
  const json = forOperators ? eventToAdminJson(event, lineage) : eventToJson(event, lineage)
  return `id: ${json.id}\ndata: ${JSON.stringify(json)}\n\n`
}
