// The log of events as this replica has read it: one reader for all that follow. A commit here, or a notice of another replica,
// makes it look; the table is the truth.
//
// To read on from a position without a gap or a double, as a consumer that stores its position does:
//   1. `readAfter(position, { limit })` until no event comes back. In one transaction, do what the events require, and store
//      the position that comes with them.
//   2. Wait until `follow` calls back, or for a second. Its events are only a reason to read.
// A listener that keeps nothing may take the events of `follow` themselves: those after the position that it has read up to.
import type { Log } from '@dormouse/process'
import { inLane } from '../db/lanes.ts'
import { isDatabaseUnavailable, type Pool } from '../db/pool.ts'
import type { Leadership } from '../leadership/leadership.ts'
import type { CommitNotices } from './commit-notices.ts'
import type { Position } from './cursors.ts'
import { noteLeftOut } from './left-out.ts'
import { Settled } from './settled.ts'
import type { EventQuery, EventRow } from './store.ts'
import * as store from './store.ts'

export interface EventFeedOptions {
  pool: Pool
  leadership: Leadership
  notices: CommitNotices
  log: Log
  /** A commit of which no notice came is seen by then. */
  pollMs?: number
}

export interface Follower {
  /** Settled events in their order, each once. Must not throw. */
  saw(events: EventRow[]): void
  /** The database was restored, or has failed over: positions of before are void. */
  restarted?(): void
}

/** The log does not reach back to a position, or the position is of another database. */
export class CursorGone extends Error {
  override readonly name = 'CursorGone'
  readonly oldest: Position

  constructor(oldest: Position) {
    super('events from this position are no longer kept')
    this.oldest = oldest
  }
}

const rowsAtOnce = 1_000
/** The shortest time between two looks. Under load each look then finds several events. */
const paceMs = 4
/** How often to look while a transaction holds events back. */
const gapMs = { least: 2, most: 100 }

export class EventFeed {
  readonly #options: EventFeedOptions
  readonly #followers = new Set<Follower>()
  #settled: Settled | undefined
  #lineage = ''
  #current: Promise<void> | undefined
  #next: Promise<void> | undefined
  #lookedAt = Number.NEGATIVE_INFINITY
  #timer: NodeJS.Timeout | undefined
  #gapLooks = 0
  #heldSince: number | undefined
  #closed = false

  constructor(options: EventFeedOptions) {
    this.#options = options
    options.notices.onNotice(() => {
      if (this.#followers.size > 0) this.#wake()
    })
  }

  /** How long the oldest event that is committed has been held back by a transaction in progress. */
  get heldBackMs(): number {
    return this.#heldSince === undefined ? 0 : performance.now() - this.#heldSince
  }

  /** The position up to which the log is complete, as far as this replica has looked. */
  get position(): Position {
    return { lineage: this.#lineage, seq: this.#settled?.position ?? 0 }
  }

  /** Calls back with what settles from now on; returns how to stop. */
  follow(follower: Follower): () => void {
    this.#followers.add(follower)
    this.#options.notices.listen()
    this.#wake()
    return () => {
      this.#followers.delete(follower)
      if (this.#followers.size === 0) clearTimeout(this.#timer)
    }
  }

  /** Looks at the log: what was committed before this call is settled then, unless a transaction in progress holds it back. */
  look(): Promise<void> {
    this.#next ??= this.#lookNext()
    return this.#next
  }

  /** The present end of the log. */
  async now(): Promise<Position> {
    await this.look()
    return this.position
  }

  /**
   * Settled events after the position, oldest first, and the position behind them. There may be more if there are fewer than
   * `limit`: call it until the position is not before that of the feed. Throws `CursorGone`.
   */
  async readAfter({ lineage, seq }: Position, query: EventQuery): Promise<{ events: EventRow[]; position: Position }> {
    // Another replica may have come further.
    if (!this.#settled || seq > this.#settled.position) await this.look()
    const settled = this.position.seq
    const found = await store.page(this.#options.pool, seq, settled, query)
    if (found.lineage !== this.#lineage) {
      this.#restart(found.lineage)
      return this.readAfter({ lineage, seq }, query)
    }
    if (lineage !== found.lineage || seq < found.dropped || seq > found.last)
      throw new CursorGone({ lineage: found.lineage, seq: found.dropped })
    return { events: found.events, position: { lineage, seq: Math.max(seq, found.upTo) } }
  }

  /** The oldest position that can be read on from. */
  oldest(): Promise<Position> {
    return store.oldest(this.#options.pool)
  }

  /**
   * Notes how far the log is complete, so that a replica that starts need not wait for transactions in progress. By the leader.
   * Returns for how long the oldest event has been held back.
   */
  async note(): Promise<number> {
    await this.look()
    const { seq } = this.position
    await this.#options.leadership.transaction(async (tx) => {
      await store.noteSettled(tx, seq)
      await noteLeftOut(tx)
    })
    return this.heldBackMs
  }

  close(): void {
    this.#closed = true
    this.#followers.clear()
    clearTimeout(this.#timer)
  }

  #wake(): void {
    this.look().catch((err: unknown) => {
      const level = isDatabaseUnavailable(err) ? 'debug' : 'warn'
      this.#options.log[level]({ err }, 'the log of events could not be read; retrying')
    })
  }

  async #lookNext(): Promise<void> {
    await this.#current?.catch(() => undefined)
    const restMs = this.#lookedAt + paceMs - performance.now()
    if (restMs > 0) await new Promise((resolve) => setTimeout(resolve, restMs))
    this.#next = undefined
    this.#lookedAt = performance.now()
    this.#current = inLane('work', () => this.#lookToTheEnd()).finally(() => this.#lookLater())
    await this.#current
  }

  async #lookToTheEnd(): Promise<void> {
    const { pool } = this.#options
    this.#settled ??= new Settled(await store.settledBefore(pool))
    for (let more = true; more; ) {
      const { events, lineage, xmin } = await store.see(pool, this.#settled.position, rowsAtOnce)
      if (this.#lineage !== '' && this.#lineage !== lineage) return this.#restart(lineage)
      this.#lineage = lineage
      const count = this.#settled.take({ seqs: events.map(({ seq }) => seq), xmin })
      more = count === rowsAtOnce || this.#settled.wantsId
      this.#heldSince = this.#settled.waits ? (this.#heldSince ?? performance.now()) : undefined
      // In the turn that moves the position: a follower may take the position for what it has seen.
      if (count > 0) for (const follower of [...this.#followers]) follower.saw(events.slice(0, count))
      if (this.#settled.wantsId) this.#settled.took(await store.takeTransactionId(pool))
    }
  }

  #restart(lineage: string): void {
    this.#settled = undefined
    this.#lineage = lineage
    for (const follower of [...this.#followers]) follower.restarted?.()
  }

  #lookLater(): void {
    clearTimeout(this.#timer)
    this.#gapLooks = this.#settled?.waits ? this.#gapLooks + 1 : 0
    if (this.#closed || this.#followers.size === 0) return
    const gap = Math.min(gapMs.most, gapMs.least * 2 ** this.#gapLooks)
    const inMs = this.#gapLooks > 0 ? gap : (this.#options.pollMs ?? 1_000)
    this.#timer = setTimeout(() => this.#wake(), inMs).unref()
  }
}
