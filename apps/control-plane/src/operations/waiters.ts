// Those who wait for an operation to settle: told at once where it settles here, else by looking again every 2 s.
import { type Db, isDatabaseAway } from '../db/pool.ts'
import { isSettled, type OperationRow, read } from './store.ts'

const pollMs = 2_000

export class Waiters {
  readonly #waiting = new Map<string, Set<(row: OperationRow) => void>>()

  readonly #closing = new AbortController()
  readonly #capMs: number

  /** Nobody waits longer than this. */
  constructor(capMs: number) {
    this.#capMs = capMs
  }

  /** How many operations are waited for. */
  get count(): number {
    return this.#waiting.size
  }

  /** The process stops: everybody is answered with what is known now. */
  release(): void {
    this.#closing.abort()
  }

  /** Tells those who wait for this operation that it settled. */
  settled(row: OperationRow): void {
    for (const tell of this.#waiting.get(row.id) ?? []) tell(row)
  }

  /** Answers the settled operation, or the one in progress when the cap is reached or the caller goes away. */
  async wait(db: Db, row: OperationRow, gone: AbortSignal): Promise<OperationRow> {
    const signal = AbortSignal.any([gone, this.#closing.signal])
    const ends = performance.now() + this.#capMs
    let latest = row
    while (!isSettled(latest) && !signal.aborted && performance.now() < ends) {
      const told = this.#told(row.id, Math.min(pollMs, ends - performance.now()), signal)
      // It may have settled before we listened, or settle on another replica: only the database knows.
      const now = await read(db, row.id).catch(unlessAway)
      latest = now && isSettled(now) ? now : ((await told) ?? now ?? latest)
    }
    return latest
  }

  /** The settled operation if it settles here within the time; undefined otherwise. */
  async #told(id: string, ms: number, signal: AbortSignal): Promise<OperationRow | undefined> {
    const { promise, resolve } = Promise.withResolvers<OperationRow | undefined>()
    const mine = this.#waiting.get(id) ?? new Set()
    this.#waiting.set(id, mine.add(resolve))
    const give = () => resolve(undefined)
    const timer = setTimeout(give, ms)
    signal.addEventListener('abort', give, { once: true })
    try {
      return await promise
    } finally {
      clearTimeout(timer)
      signal.removeEventListener('abort', give)
      mine.delete(resolve)
      if (mine.size === 0) this.#waiting.delete(id)
    }
  }
}

/** What was accepted stays accepted: a database that is away for a moment only delays the answer. */
function unlessAway(error: unknown): undefined {
  if (!isDatabaseAway(error)) throw error
}
