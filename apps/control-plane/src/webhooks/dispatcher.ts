// Sends what is due to one webhook after the other, some at a time, and records how it went. A receiver that fails or is slow
// costs its own organisation's share only.
import type { Log } from '@dormouse/process'
import { Gathered } from '../db/gathered.ts'
import type { Pool } from '../db/pool.ts'
import type { Tx } from '../db/transactions.ts'
import type { Leadership, Term } from '../leadership/leadership.ts'
import * as deliveries from './deliveries.ts'
import type { Job } from './queue.ts'
import { type Outcome, Receiver, type RequestOptions } from './requests.ts'
import type { Retries } from './retries.ts'
import { signedHeaders } from './signing.ts'
import * as store from './store.ts'

export interface DispatcherOptions {
  pool: Pool
  leadership: Leadership
  retries: Retries
  request: RequestOptions
  log: Log
  /** Webhooks that are served at once, in all. */
  webhooksAtOnce: number
  tried(outcome: Outcome): void
  /** Plans the next turn of a webhook. Called in the transaction that has locked it, so that the latest plan counts. */
  plan(job: Job): void
}

/** Requests in flight to one receiver, and how many deliveries it gets before others have their turn. */
export const requestsPerWebhook = 4
const deliveriesPerTurn = 100
const turnMs = 2_000
/** A receiver that takes longer for an answer shares the slots of those that fail. */
const slowMs = 2_000
/** Webhooks of one organisation that are served at once. */
const webhooksPerOrg = 4
/** The receiver has removed the webhook, by the specification. */
const gone = 410

interface Served {
  orgId: string
  failing: boolean
}

interface Tried {
  delivery: deliveries.DueDelivery
  at: Date
  outcome: Outcome
  failingSince: Date | null
}

export class Dispatcher {
  readonly #options: DispatcherOptions
  /** By the webhook's id. */
  readonly #served = new Map<string, Served>()
  /** Webhooks whose receivers were slow in their last turn. */
  readonly #slow = new Set<string>()
  readonly #records: Gathered<Tried, undefined>

  constructor(options: DispatcherOptions) {
    this.#options = options
    this.#records = new Gathered(async (tried) => {
      await this.#record(tried)
      return tried.map(() => undefined)
    })
  }

  /** Whether the webhook may have a turn: its organisation's share is not full, nor that of receivers that fail. */
  mayServe({ orgId, failing }: Served): boolean {
    return !this.#isFull(orgId) && !(failing && this.#failingAreFull())
  }

  #isFull(orgId: string): boolean {
    return [...this.#served.values()].filter((served) => served.orgId === orgId).length >= webhooksPerOrg
  }

  /** Half of all are left to receivers that work. */
  #failingAreFull(): boolean {
    const failing = [...this.#served.values()].filter((served) => served.failing).length
    return failing >= Math.max(1, Math.floor(this.#options.webhooksAtOnce / 2))
  }

  /** Sends some of what is due, and plans another turn for the rest. */
  async serve(webhookId: string, term: Term): Promise<void> {
    const webhook = await store.findEnabled(this.#options.pool, webhookId)
    if (!webhook) return
    const served = { orgId: webhook.orgId, failing: webhook.failingSince !== null || this.#slow.has(webhookId) }
    if (this.mayServe(served)) {
      this.#served.set(webhookId, served)
      try {
        await this.#turn(webhook, term)
      } finally {
        this.#served.delete(webhookId)
      }
    }
    if (!term.signal.aborted) await this.planNext(webhookId)
  }

  /** Plans the webhook's turn for its next delivery, if one waits. */
  async planNext(webhookId: string): Promise<void> {
    const { leadership, retries, plan } = this.#options
    await leadership.transaction(async (tx) => {
      const next = await deliveries.lockNext(tx, webhookId)
      if (!next) return
      const probeMs = next.failingForMs === null ? 0 : retries.probePauseMs(next.failingForMs)
      const failing = next.failingForMs !== null || this.#slow.has(webhookId)
      plan({ webhookId, orgId: next.orgId, failing, inMs: Math.max(0, next.inMs, probeMs) })
    })
  }

  /** Four requests at a time, for two seconds or until the first failure. A receiver that fails gets one request. */
  async #turn(webhook: store.WebhookRow, term: Term): Promise<void> {
    const { pool, request } = this.#options
    const failing = webhook.failingSince !== null
    const due = await deliveries.due(pool, webhook.id, failing ? 1 : deliveriesPerTurn)
    const recorded: Promise<unknown>[] = []
    const ends = performance.now() + turnMs
    let stopped = false
    let slow = false
    using receiver = new Receiver(webhook.url, requestsPerWebhook, request)
    const sendSome = async () => {
      for (let delivery = due.shift(); delivery && !stopped; delivery = due.shift()) {
        const tried = await this.#try(webhook, delivery, receiver, term)
        stopped ||= tried.outcome.error !== null || performance.now() > ends
        slow ||= tried.outcome.ms > slowMs
        const written = this.#records.add(tried)
        written.catch(() => undefined)
        recorded.push(written)
      }
    }
    try {
      await Promise.all(Array.from({ length: failing ? 1 : requestsPerWebhook }, sendSome))
    } catch (error) {
      if (!term.signal.aborted) throw error
    } finally {
      await Promise.allSettled(recorded)
      if (slow) this.#slow.add(webhook.id)
      else this.#slow.delete(webhook.id)
    }
    await Promise.all(recorded)
  }

  async #try(
    webhook: store.WebhookRow,
    delivery: deliveries.DueDelivery,
    receiver: Receiver,
    term: Term,
  ): Promise<Tried> {
    const at = new Date()
    const headers = signedHeaders(webhook.keys, delivery.eventId, at, delivery.body)
    const outcome = await receiver.post(headers, delivery.body, term.signal)
    this.#options.tried(outcome)
    return { delivery, at, outcome, failingSince: webhook.failingSince }
  }

  /** Settles what succeeded, plans the next attempt of what failed, and disables what has failed for too long. */
  async #record(tried: Tried[]): Promise<void> {
    const { leadership, log } = this.#options
    const judged = tried.map((one) => ({ ...one, pauseMs: this.#pauseOf(one) }))
    const failed = judged.filter(({ outcome, delivery }) => outcome.error !== null && !delivery.isTest)
    const worked = tried.filter(({ outcome, failingSince }) => outcome.error === null && failingSince !== null)
    const healthy = idsOf(worked).filter((id) => !idsOf(failed).includes(id))
    const disabled = await leadership.transaction(async (tx) => {
      const changed = [...healthy, ...idsOf(failed)]
      if (changed.length > 0) await store.lockMany(tx, changed)
      await store.noteHealthy(tx, healthy)
      const over: Tried[] = []
      for (const one of failed) if (await this.#isOver(tx, one)) over.push(one)
      await deliveries.record(
        tx,
        judged.map(({ delivery: { id }, at, outcome, pauseMs }) => ({ id, at: at.toISOString(), outcome, pauseMs })),
      )
      const removed = failed.filter(({ outcome }) => outcome.status === gone)
      return [
        ...(await store.disable(tx, idsOf(removed), 'gone')),
        ...(await store.disable(tx, idsOf(over), 'failing')),
      ]
    })
    if (disabled.length > 0) log.info({ webhooks: disabled }, 'webhooks were disabled: their receivers accept nothing')
  }

  /** Until the next attempt; null if it has settled. */
  #pauseOf({ delivery: { isTest, tries, ageMs }, outcome }: Tried): number | null {
    if (outcome.error === null || isTest) return null
    return this.#options.retries.pauseMs({ tries: tries + 1, ageMs }) ?? null
  }

  /** Whether nothing was accepted from the delivery's first attempt to its last, or for as long. */
  async #isOver(tx: Tx, { delivery, at, pauseMs }: Tried & { pauseMs: number | null }): Promise<boolean> {
    const since = await store.noteFailing(tx, delivery.webhookId, at)
    const isLast = pauseMs === null && since <= (delivery.firstTryAt ?? at)
    return isLast || this.#options.retries.isOver(Date.now() - since.getTime())
  }
}

const idsOf = (tried: Tried[]): string[] => [...new Set(tried.map(({ delivery }) => delivery.webhookId))]
