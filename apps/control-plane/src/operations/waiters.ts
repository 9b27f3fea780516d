// Requests that wait for an operation to settle. They resolve at once if it settles on this replica. Otherwise the log of
// events shows when to read it; in case that is late, it is also polled every 2 s, once for all requests that wait for it.
import { type Db, isDatabaseUnavailable } from '../db/pool.ts'
import type { EventFeed } from '../events/feed.ts'
import { isSettled, type OperationRow, read } from './store.ts'

export interface WaitersOptions {
  db: Db
  events: Pick<EventFeed, 'follow'>
  /** No request waits longer than this. */
  capMs: number
  pollMs?: number
}

export class Waiters {
  readonly #watched = new Map<string, Watch>()
  readonly #closing = new AbortController()
  readonly #options: WaitersOptions
  #unfollow: (() => void) | undefined

  constructor(options: WaitersOptions) {
    this.#options = options
  }

  /** How many operations have waiting requests. */
  get count(): number {
    return this.#watched.size
  }

  /** The process is stopping: every wait resolves with what is known now. */
  release(): void {
    this.#closing.abort()
  }

  /** This operation no longer runs here, and has not settled here: its waits read how it is. */
  left(id: string): void {
    this.#watched.get(id)?.look()
  }

  /** Resolves the waits for this operation, which has settled. */
  settled(row: OperationRow): void {
    this.#watched.get(row.id)?.saw(row)
  }

  /**
   * Returns the settled operation, or the one in progress when the cap is reached or the client disconnects. `isHere`: it runs
   * on this replica and has not settled yet, so that `settled` or `left` will be called.
   */
  async wait(row: OperationRow, gone: AbortSignal, isHere = false): Promise<OperationRow> {
    const signal = AbortSignal.any([gone, this.#closing.signal])
    if (isSettled(row) || signal.aborted) return row
    if (!isHere) this.#follow()
    const watch = this.#watched.get(row.id) ?? this.#watch(row.id)
    const { promise, resolve, reject } = Promise.withResolvers<OperationRow>()
    const waiter = { resolve, reject }
    const give = () => resolve(watch.latest ?? row)
    const timer = setTimeout(give, this.#options.capMs)
    signal.addEventListener('abort', give, { once: true })
    watch.join(waiter, isHere)
    try {
      return await promise
    } finally {
      clearTimeout(timer)
      signal.removeEventListener('abort', give)
      if (watch.leave(waiter) === 0 && this.#watched.get(row.id) === watch) this.#watched.delete(row.id)
      if (this.#watched.size === 0) this.#unfollow = void this.#unfollow?.()
    }
  }

  /** Before the first read, so that no event falls between the two. */
  #follow(): void {
    this.#unfollow ??= this.#options.events.follow({
      saw: (events) => {
        for (const { type, data } of events)
          if (type === 'operation.succeeded' || type === 'operation.failed')
            this.#watched.get(String(data.operation_id))?.look()
      },
    })
  }

  #watch(id: string): Watch {
    const { db, pollMs = 2_000 } = this.#options
    const watch = new Watch(() => read(db, id), pollMs)
    this.#watched.set(id, watch)
    return watch
  }
}

interface Waiter {
  resolve(row: OperationRow): void
  reject(error: unknown): void
}

/** One operation, polled for all its waiting requests. */
class Watch {
  /** As it was last read. */
  latest: OperationRow | undefined
  readonly #read: () => Promise<OperationRow | undefined>
  readonly #pollMs: number
  readonly #waiters = new Set<Waiter>()
  #timer: NodeJS.Timeout | undefined
  #looking = false
  #joinedMeanwhile = false

  constructor(read: () => Promise<OperationRow | undefined>, pollMs: number) {
    this.#read = read
    this.#pollMs = pollMs
  }

  /** It may have settled just before, so a request that joins resolves only by a read that begins afterwards. */
  join(waiter: Waiter, isHere: boolean): void {
    this.#waiters.add(waiter)
    if (!isHere) this.look()
    else if (!this.#looking && this.#waiters.size === 1) this.#lookLater()
  }

  look(): void {
    if (this.#looking) this.#joinedMeanwhile = true
    else void this.#look()
  }

  /** Returns how many requests still wait. */
  leave(waiter: Waiter): number {
    this.#waiters.delete(waiter)
    if (this.#waiters.size === 0) clearTimeout(this.#timer)
    return this.#waiters.size
  }

  saw(row: OperationRow): void {
    this.latest = row
    if (isSettled(row)) for (const { resolve } of this.#waiters) resolve(row)
  }

  /** One read at a time: at once, then every `pollMs` as long as a request waits. */
  async #look(): Promise<void> {
    clearTimeout(this.#timer)
    this.#looking = true
    do {
      this.#joinedMeanwhile = false
      try {
        const row = await this.#read()
        if (row) this.saw(row)
      } catch (error) {
        // An unavailable database only delays the answer: the operation stays accepted.
        if (!isDatabaseUnavailable(error)) for (const { reject } of this.#waiters) reject(error)
      }
    } while (this.#joinedMeanwhile)
    this.#looking = false
    if (this.#waiters.size > 0) this.#lookLater()
  }

  #lookLater(): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => void this.#look(), this.#pollMs)
  }
}
