// What the leader does for webhooks: reads the log, keeps the queue running, and looks after what is stuck. Without an enabled
// webhook it costs one query a second.
import { eachDone, type Failpoints, type Log } from '@dormouse/process'
import type { Found, StandingAlarms } from '../alarms/service.ts'
import { inLane } from '../db/lanes.ts'
import { isDatabaseUnavailable, type Pool } from '../db/pool.ts'
import type { EventFeed } from '../events/feed.ts'
import type { Leadership, Term } from '../leadership/leadership.ts'
import { noteLeftOut } from './budget.ts'
import * as deliveries from './deliveries.ts'
import { Dispatcher, requestsPerWebhook } from './dispatcher.ts'
import { LogReader } from './log-reader.ts'
import { enqueue, WebhookQueue } from './queue.ts'
import type { Outcome, RequestOptions } from './requests.ts'
import { Retries } from './retries.ts'
import * as store from './store.ts'

export interface WorkerOptions {
  pool: Pool
  databaseUrl: string
  leadership: Leadership
  feed: EventFeed
  alarms: StandingAlarms
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
const longestPollMs = 1_500
const shortestPollMs = 100

export class WebhookWorker {
  readonly #options: WorkerOptions
  readonly #queue: WebhookQueue
  readonly #reader: LogReader
  readonly #dispatcher: Dispatcher
  #unfollow: (() => void) | undefined
  #run: Promise<void> | undefined
  #again = false
  /** The term whose deliveries are all queued. */
  #queued: Term | undefined
  /** As counted last by this leader. */
  waiting: deliveries.Waiting = { count: 0, oldestSecs: 0 }

  constructor(options: WorkerOptions) {
    const { pool, leadership, databaseUrl, feed, failpoints, log, request, retryMs, tried } = options
    this.#options = options
    const concurrency = Math.max(1, Math.floor(options.requestsInFlight / requestsPerWebhook))
    const retries = new Retries(retryMs)
    this.#dispatcher = new Dispatcher({ pool, leadership, retries, request, log, webhooksAtOnce: concurrency, tried })
    this.#reader = new LogReader({ pool, leadership, feed, failpoints, log })
    this.#queue = new WebhookQueue({
      ...{ leadership, databaseUrl, log, concurrency },
      pollMs: Math.max(shortestPollMs, Math.min(longestPollMs, (retryMs[0] ?? longestPollMs) / 4)),
      serve: (webhookId, term) => inLane('work', () => this.#dispatcher.serve(webhookId, term)),
      forbidden: () => this.#dispatcher.forbidden(),
    })
    leadership.on('ended', () => this.#stopFollowing())
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

  /** Queues the webhook for what is due now. */
  async nudge(webhookId: string): Promise<void> {
    const { term } = this.#options.leadership
    if (!term) return
    await this.#queue.start(term)
    await this.#dispatcher.queueNext(webhookId)
  }

  /** The same; what fails is found by `maintain`. */
  nudgeLater(webhookId: string): void {
    inLane('work', () => this.nudge(webhookId)).catch((err: unknown) => this.#failed(err))
  }

  wake(): void {
    if (this.#options.leadership.term) inLane('work', () => this.run()).catch((err: unknown) => this.#failed(err))
  }

  /** Disables what fills the database, logs what was left out, queues what has lost its job, and counts what waits. */
  async maintain(): Promise<void> {
    const { pool, leadership } = this.#options
    const count = async () => {
      this.waiting = await deliveries.waiting(pool)
    }
    const note = () => leadership.transaction((tx) => noteLeftOut(tx))
    const queue = async () => this.#queued && this.#queueAll()
    await eachDone([count, () => this.#disableFull(), note, queue], (work) => work())
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
    this.#stopFollowing()
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
      this.#stopFollowing()
      return this.#noteQueue([])
    }
    await this.#queue.start(term).catch((err: unknown) => this.#cannotStart(term, err))
    await this.#noteQueue([])
    if (this.#queued !== term) await this.#queueAll()
    this.#queued = term
    if (!term.signal.aborted) this.#unfollow ??= feed.follow({ saw: () => this.wake(), restarted: () => this.wake() })
    await this.#reader.read({ seq, leastWanted })
  }

  /** Jobs of which the end was not recorded, or that were given up, are queued again. */
  async #queueAll(): Promise<void> {
    const { pool, leadership } = this.#options
    const all = await deliveries.nextOfAll(pool)
    const jobs = all.map(({ webhookId, orgId, inMs, failingForMs }) => ({
      ...{ webhookId, orgId, failing: failingForMs !== null, inMs: Math.max(0, inMs) },
    }))
    await leadership.transaction((tx) => enqueue(tx, jobs, true))
  }

  #stopFollowing(): void {
    this.#unfollow?.()
    this.#unfollow = undefined
    this.#queued = undefined
    this.waiting = { count: 0, oldestSecs: 0 }
  }

  /** For example, because the database role may not create a schema. */
  async #cannotStart(term: Term, err: unknown): Promise<never> {
    const what = 'the queue of webhooks cannot start, so nothing is sent'
    if (!term.signal.aborted && !isDatabaseUnavailable(err))
      await this.#noteQueue([{ subject: 'queue', hostId: null, desktopId: null, what, facts: { err } }])
    throw err
  }

  #noteQueue(found: Found[]): Promise<void> {
    const { alarms, log } = this.#options
    return alarms.are('webhooks', 'queue', found, log)
  }

  #failed(err: unknown): void {
    const { leadership, log } = this.#options
    if (!leadership.term || isDatabaseUnavailable(err)) log.debug({ err }, 'webhooks are looked after again later')
    else log.warn({ err }, 'webhooks could not be looked after; retrying')
  }
}
