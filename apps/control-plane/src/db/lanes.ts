// The queue in front of the pool. The pool fails a request for a connection after two seconds; here the request waits as long
// as the database makes progress. Knows no table.
//
// What keeps the service alive goes first, whatever the load. Work in progress and requests then take turns, so that neither
// can starve the other.
import { AsyncLocalStorage } from 'node:async_hooks'
import { Refusal } from '@dormouse/contract'
import pg from 'pg'

/** `control` is for heartbeats, health checks and leadership; `work` for operations and recovery, which are bounded. */
export type Lane = 'control' | 'work' | 'requests'

const current = new AsyncLocalStorage<Lane>()

/** Runs the work, and everything that it awaits, in that lane. Work outside any lane counts as a request. */
export const inLane = <T>(lane: Lane, work: () => T): T => current.run(lane, work)

/** Without progress for this long, the database counts as unavailable. */
const stalledMs = 2_000
const checkEveryMs = 250
/** A request that would wait longer is refused at once. */
const longestWaitMs = 60_000

interface Waiting {
  since: number
  take(): void
  fail(error: Error): void
}

export class Lanes {
  readonly #waiting: Record<Lane, Waiting[]> = { control: [], work: [], requests: [] }
  #free: number
  #turn: 'work' | 'requests' = 'work'
  /** When a connection was last returned intact. */
  #progressAt = 0
  /** Requests that got a connection, per millisecond, and how many did since the last check. */
  #pace = 1
  #taken = 0
  #checking: NodeJS.Timeout | undefined

  constructor(connections: number) {
    this.#free = connections
  }

  get waiting(): number {
    return Object.values(this.#waiting).reduce((sum, { length }) => sum + length, 0)
  }

  /**
   * Waits for a connection. Rejects if the database makes no progress meanwhile, and refuses a request that would wait too
   * long. Call `leave` once for each success.
   */
  async enter(lane: Lane): Promise<void> {
    if (this.#free > 0) {
      this.#free--
      return
    }
    const waiting = this.#waiting[lane]
    const expectedMs = waiting.length / this.#pace
    if (lane === 'requests' && expectedMs > longestWaitMs) throw overloaded(expectedMs)
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    waiting.push({ since: performance.now(), take: resolve, fail: reject })
    this.#checking ??= setInterval(() => this.#check(), checkEveryMs).unref()
    return promise
  }

  /** Passes the connection to the next in the queue. `intact`: the database has answered on it. */
  leave(intact: boolean): void {
    if (intact) this.#progressAt = performance.now()
    const next = this.#next()
    if (next) next.take()
    else this.#free++
  }

  #next(): Waiting | undefined {
    const { control, work, requests } = this.#waiting
    if (control.length > 0) return control.shift()
    const first = this.#turn === 'work' ? work : requests
    const second = first === work ? requests : work
    const from = first.length > 0 ? first : second
    this.#turn = from === work ? 'requests' : 'work'
    if (from === requests && from.length > 0) this.#taken++
    return from.shift()
  }

  #check(): void {
    this.#pace = Math.max(0.001, this.#pace * 0.8 + (this.#taken / checkEveryMs) * 0.2)
    this.#taken = 0
    const stalledSince = performance.now() - stalledMs
    if (this.#progressAt < stalledSince) for (const lane of Object.values(this.#waiting)) failThose(lane, stalledSince)
    if (this.waiting > 0) return
    clearInterval(this.#checking)
    this.#checking = undefined
    this.#pace = 1
  }
}

/** Fails those that have waited since then or longer; they are at the head of the queue. */
function failThose(waiting: Waiting[], since: number): void {
  const count = waiting.findIndex((one) => one.since > since)
  const late = waiting.splice(0, count < 0 ? waiting.length : count)
  for (const { fail } of late) fail(new Error('timeout exceeded when trying to connect'))
}

/** The delay is random, so that clients that were refused together do not return together. */
const overloaded = (expectedMs: number): Refusal =>
  new Refusal('overloaded', undefined, { retryAfterSecs: Math.ceil((expectedMs / 1_000) * (0.5 + Math.random())) })

/** A pool whose callers wait in their lanes. */
export class LanedPool extends pg.Pool {
  readonly lanes: Lanes
  readonly #held = new Set<pg.PoolClient>()

  constructor(config: pg.PoolConfig & { max: number }) {
    super(config)
    this.lanes = new Lanes(config.max)
    this.on('release', (error, client) => {
      if (this.#held.delete(client)) this.lanes.leave(!error)
    })
  }

  override connect(): Promise<pg.PoolClient>
  override connect(callback: ConnectCallback): void
  override connect(callback?: ConnectCallback): Promise<pg.PoolClient> | undefined {
    const connected = this.#connect()
    if (!callback) return connected
    connected.then(
      (client) => callback(undefined, client, client.release),
      (error: Error) => callback(error, undefined, () => undefined),
    )
    return undefined
  }

  async #connect(): Promise<pg.PoolClient> {
    await this.lanes.enter(current.getStore() ?? 'requests')
    try {
      const client = await super.connect()
      this.#held.add(client)
      return client
    } catch (error) {
      this.lanes.leave(false)
      throw error
    }
  }
}

type ConnectCallback = (
  error: Error | undefined,
  client: pg.PoolClient | undefined,
  release: (error?: Error | boolean) => void,
) => void
