// What the leader does for webhooks: reads the log, keeps the queue running, and looks after what is stuck. Without an enabled
// webhook it costs one query a second.
import { eachDone, type Failpoints, type Log } from '@dormouse/process'
import { inLane } from '../db/lanes.ts'
import { isDatabaseUnavailable, type Pool } from '../db/pool.ts'
import type { EventFeed } from '../events/feed.ts'
import type { Leadership, Term } from '../leadership/leadership.ts'
import { noteLeftOut } from './budget.ts'
import * as deliveries from './deliveries.ts'
import { Dispatcher, requestsPerWebhook } from './dispatcher.ts'
import { LogReader } from './log-reader.ts'
import { type Job, WebhookQueue } from './queue.ts'
import type { Outcome, RequestOptions } from './requests.ts'
import { Retries } from './retries.ts'
import * as store from './store.ts'

export interface WorkerOptions {
  pool: Pool
  leadership: Leadership
  feed: EventFeed
  failpoints: Failpoints
  log: Log
  request: RequestOptions
  /** Pauses between the attempts of a delivery. */
  retryMs: readonly number[]
  requestsInFlight: number
  tried(outcome: Outcome): void
}

/** Above it, a webhook that fails is disabled: its deliveries fill the database. */
const backlogMax = 50_000

export class WebhookWorker {
  readonly #options: WorkerOptions
  readonly #queue: WebhookQueue
  readonly #reader: LogReader
  readonly #dispatcher: Dispatcher
  #unfollow: (() => void) | undefined
  #run: Promise<void> | undefined
  #again = false
  /** The term for which all deliveries are planned. */
  #planned: Term | undefined
  /** As counted last by this leader. */
  waiting: deliveries.Waiting = { count: 0, oldestSecs: 0 }

  constructor(options: WorkerOptions) {
    const { pool, leadership, feed, failpoints, log, request, retryMs, tried } = options
    this.#options = options
    const concurrency = Math.max(1, Math.floor(options.requestsInFlight / requestsPerWebhook))
    const retries = new Retries(retryMs)
    this.#dispatcher = new Dispatcher({
      ...{ pool, leadership, retries, request, log, webhooksAtOnce: concurrency, tried },
      plan: (job) => this.#queue.plan([job]),
    })
    // Events must not postpone or hasten the next attempt of a receiver that fails.
    const plan = (job: Job) => this.#queue.plan([job], job.failing)
    this.#reader = new LogReader({ pool, leadership, feed, failpoints, log, plan })
    this.#queue = new WebhookQueue({
      concurrency,
      serve: (webhookId, term) => inLane('work', () => this.#dispatcher.serve(webhookId, term)),
      mayServe: (job) => this.#dispatcher.mayServe(job),
      failed: (err) => this.#failed(err),
    })
    leadership.on('ended', () => this.#stop())
  }

  /** Makes deliveries of what the log has by now. Coalesced. */
  run(): Promise<void> {
    if (this.#run) {
      this.#again = true
      return this.#run
    }
    this.#run = this.#runAll().finally(() => {
      this.#run = undefined
    })
    return this.#run
  }

  /** Plans the webhook's turn for what is due now. */
  async nudge(webhookId: string): Promise<void> {
    const { term } = this.#options.leadership
    if (!term) return
    this.#queue.start(term)
    await this.#dispatcher.planNext(webhookId)
  }

  /** The same; what fails is found by `maintain`. */
  nudgeLater(webhookId: string): void {
    inLane('work', () => this.nudge(webhookId)).catch((err: unknown) => this.#failed(err))
  }

  wake(): void {
    if (this.#options.leadership.term) inLane('work', () => this.run()).catch((err: unknown) => this.#failed(err))
  }

  /** Disables what fills the database, logs what was left out, plans what has lost its turn, and counts what waits. */
  async maintain(): Promise<void> {
    const { pool, leadership } = this.#options
    const count = async () => {
      this.waiting = await deliveries.waiting(pool)
    }
    const note = () => leadership.transaction((tx) => noteLeftOut(tx))
    const plan = async () => this.#planned && this.#planAll()
    await eachDone([count, () => this.#disableFull(), note, plan], (work) => work())
  }

  async #disableFull(): Promise<void> {
    const { pool, leadership, log } = this.#options
    const full = await deliveries.overloaded(pool, backlogMax)
    if (full.length === 0) return
    await leadership.transaction((tx) => store.disable(tx, full, 'backlog'))
    log.info({ webhooks: full, backlogMax }, 'webhooks were disabled: too many deliveries wait')
  }

  /** Resolves once nothing is sent any more. */
  async idle(): Promise<void> {
    this.#stop()
    await this.#run?.catch(() => undefined)
    await this.#queue.idle()
  }

  async #runAll(): Promise<void> {
    do {
      this.#again = false
      const { term } = this.#options.leadership
      if (term) await this.#runOnce(term)
    } while (this.#again)
  }

  async #runOnce(term: Term): Promise<void> {
    const { pool, feed } = this.#options
    const { seq, leastWanted } = await store.readFrom(pool)
    if (leastWanted === null) {
      this.#stop()
      return
    }
    this.#queue.start(term)
    if (this.#planned !== term) await this.#planAll()
    this.#planned = term
    if (!term.signal.aborted) this.#unfollow ??= feed.follow({ saw: () => this.wake(), restarted: () => this.wake() })
    await this.#reader.read({ seq, leastWanted })
  }

  /** What a leader before has planned, and what has lost its turn. */
  async #planAll(): Promise<void> {
    const all = await deliveries.nextOfAll(this.#options.pool)
    const jobs = all.map(({ webhookId, orgId, inMs, failingForMs }) => ({
      ...{ webhookId, orgId, failing: failingForMs !== null, inMs: Math.max(0, inMs) },
    }))
    this.#queue.plan(jobs, true)
  }

  #stop(): void {
    this.#queue.stop()
    this.#unfollow?.()
    this.#unfollow = undefined
    this.#planned = undefined
    this.waiting = { count: 0, oldestSecs: 0 }
  }

  #failed(err: unknown): void {
    const { leadership, log } = this.#options
    if (!leadership.term || isDatabaseUnavailable(err)) log.debug({ err }, 'webhooks are looked after again later')
    else log.warn({ err }, 'webhooks could not be looked after; retrying')
  }
}
