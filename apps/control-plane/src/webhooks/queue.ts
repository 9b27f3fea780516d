// When each webhook has its next turn: the leader's plan, in its memory. The deliveries in the database are the truth, and the plan
// is made from them again when a term begins. Knows no delivery.
import { outsideWork } from '@dormouse/process'
import type { Term } from '../leadership/leadership.ts'

/** What the queue needs to know of a webhook. */
export interface Job {
  webhookId: string
  orgId: string
  failing: boolean
  /** In milliseconds from now; 0 for at once. */
  inMs: number
}

export interface QueueOptions {
  /** Webhooks that are served at once. */
  concurrency: number
  serve(webhookId: string, term: Term): Promise<void>
  /** Whether the webhook may have a turn now. Asked again when a turn has ended. */
  mayServe(job: Pick<Job, 'orgId' | 'failing'>): boolean
  failed(error: unknown): void
}

interface Planned extends Job {
  /** On the clock of `performance.now()`. */
  at: number
}

/** A webhook whose turn failed for a reason of our own has its next one then. */
const retryMs = 2_000
/** The longest pause of a timer. */
const longestPauseMs = 60_000

export class WebhookQueue {
  readonly #options: QueueOptions
  readonly #planned = new Map<string, Planned>()
  readonly #turns = new Map<string, Promise<void>>()
  #term: Term | undefined
  #timer: NodeJS.Timeout | undefined

  constructor(options: QueueOptions) {
    this.#options = options
  }

  /** Begins to serve for this term, with an empty plan. Idempotent. */
  start(term: Term): void {
    if (this.#term === term) return
    this.stop()
    this.#term = term
  }

  /** Forgets the plan. Turns in progress end by themselves. */
  stop(): void {
    this.#term = undefined
    this.#planned.clear()
    clearTimeout(this.#timer)
  }

  /** Resolves once no turn is in progress. */
  async idle(): Promise<void> {
    this.stop()
    await Promise.all(this.#turns.values())
  }

  /** Plans these webhooks. One that is planned already gets the new time, unless it `keepsTime`. */
  plan(jobs: readonly Job[], keepsTime = false): void {
    if (!this.#term) return
    for (const job of jobs) {
      const known = keepsTime ? this.#planned.get(job.webhookId) : undefined
      this.#planned.set(job.webhookId, { ...job, at: known?.at ?? performance.now() + job.inMs })
    }
    this.#serveDue()
  }

  /** Gives those that are due their turns, the longest due first, and waits for the next one. */
  #serveDue(): void {
    const { concurrency, mayServe } = this.#options
    clearTimeout(this.#timer)
    // The end of a turn looks again.
    if (!this.#term || this.#turns.size >= concurrency) return
    const now = performance.now()
    const due: Planned[] = []
    let pauseMs = longestPauseMs
    for (const job of this.#planned.values()) {
      if (this.#turns.has(job.webhookId)) continue
      if (job.at <= now) due.push(job)
      else pauseMs = Math.min(pauseMs, job.at - now)
    }
    for (const job of due.sort((a, b) => a.at - b.at)) {
      if (this.#turns.size >= concurrency) break
      if (mayServe(job)) this.#serve(job, this.#term)
    }
    this.#timer = setTimeout(() => this.#serveDue(), pauseMs).unref()
  }

  #serve(job: Planned, term: Term): void {
    this.#planned.delete(job.webhookId)
    const turn = outsideWork(() => this.#options.serve(job.webhookId, term)).catch((error: unknown) => {
      this.#options.failed(error)
      if (this.#term === term) this.plan([{ ...job, inMs: retryMs }], true)
    })
    const ended = turn.finally(() => {
      this.#turns.delete(job.webhookId)
      this.#serveDue()
    })
    this.#turns.set(job.webhookId, ended)
  }
}
