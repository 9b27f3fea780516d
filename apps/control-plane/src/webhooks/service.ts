// Webhooks of an organisation: creates, changes and removes them, rotates their secrets, and repeats deliveries. Knows no HTTP,
// and sends nothing.
import {
  type CreatedWebhookJson,
  type changeWebhookBody,
  type DeliveryJson,
  newId,
  type RedeliverBody,
  type RedeliveredJson,
  redeliverMax,
  refusals,
  refuse,
  refuseNotFound,
  selectorText,
  type WebhookJson,
  type WebhookSignature,
} from '@dormouse/contract'
import type { z } from 'zod'
import { type Pool, retryWhileUnavailable } from '../db/pool.ts'
import type { Tx } from '../db/transactions.ts'
import type { EventFeed } from '../events/feed.ts'
import type { Leadership } from '../leadership/leadership.ts'
import type { Customer } from '../principals/service.ts'
import { checkUrl } from './addresses.ts'
import * as budget from './budget.ts'
import * as deliveries from './deliveries.ts'
import { deliveryToJson, secretOf, webhookToJson } from './shown.ts'
import { makeKey, rotated } from './signing.ts'
import * as store from './store.ts'
import type { WebhookWorker } from './worker.ts'

export interface WebhooksOptions {
  pool: Pool
  leadership: Leadership
  feed: Pick<EventFeed, 'now'>
  worker: Pick<WebhookWorker, 'wake' | 'nudgeLater'>
  allowPrivate: boolean
  perOrg: number
}

export interface NewWebhookParams {
  url: string
  types: string[] | null
  selector: string | null
  signature: WebhookSignature
}

export class Webhooks {
  readonly #options: WebhooksOptions

  constructor(options: WebhooksOptions) {
    this.#options = options
  }

  /** It gets events that are committed from now on. The answer is the only one with its secret. */
  async create(
    { orgId }: Customer,
    { url, types, selector, signature }: NewWebhookParams,
  ): Promise<CreatedWebhookJson> {
    const { leadership, feed, worker, allowPrivate, perOrg } = this.#options
    const checked = checkUrl(url, allowPrivate)
    const { seq: afterSeq } = await feed.now()
    const keys = [{ key: makeKey(signature), until: null }]
    const webhook = { id: newId(), orgId, url: checked, types, selector, signature, keys, afterSeq }
    const row = await leadership.transaction(
      async (tx) =>
        (await store.insert(tx, webhook, perOrg)) ??
        refuse('conflict', `this organisation has ${perOrg} webhooks, as many as it may have; remove one first`),
    )
    worker.wake()
    return { ...webhookToJson(row), secret: secretOf(row) }
  }

  async list({ orgId }: Customer): Promise<WebhookJson[]> {
    return (await retryWhileUnavailable(() => store.list(this.#options.pool, orgId))).map((row) => webhookToJson(row))
  }

  async show(caller: Customer, id: string): Promise<WebhookJson> {
    return webhookToJson(await this.#find(caller, id))
  }

  /** An enabled one begins with the events from now on, and with what waited. */
  async change({ orgId }: Customer, id: string, body: z.output<typeof changeWebhookBody>): Promise<WebhookJson> {
    const { leadership, feed, worker, allowPrivate } = this.#options
    const url = body.url === undefined ? undefined : checkUrl(body.url, allowPrivate)
    const { seq: afterSeq } = await feed.now()
    const row = await leadership.transaction(async (tx) => {
      const before = (await store.lock(tx, orgId, id)) ?? refuseNotFound()
      const enabled = body.enabled ?? before.enabled
      return store.put(tx, {
        ...before,
        url: url ?? before.url,
        types: body.types === undefined ? before.types : (body.types as string[] | null),
        selector: selectorOf(body, before),
        enabled,
        disabledReason: enabled ? null : (before.disabledReason ?? 'requested'),
        ...(url !== undefined && url !== before.url && { failingSince: null }),
        ...(enabled && !before.enabled && { afterSeq, failingSince: null }),
      })
    })
    if (row.enabled) worker.nudgeLater(id)
    worker.wake()
    return webhookToJson(row)
  }

  async remove({ orgId }: Customer, id: string): Promise<void> {
    await this.#options.leadership.transaction(async (tx) => {
      if (!(await store.remove(tx, orgId, id))) refuseNotFound()
    })
  }

  /** A new secret or key. For a while deliveries are also signed with those of before. */
  async rotate({ orgId }: Customer, id: string, keepMs: number): Promise<CreatedWebhookJson> {
    const row = await this.#options.leadership.transaction(async (tx) => {
      const before = (await store.lock(tx, orgId, id)) ?? refuseNotFound()
      return store.put(tx, { ...before, keys: rotated(before.keys, makeKey(before.signature), new Date(), keepMs) })
    })
    return { ...webhookToJson(row), secret: secretOf(row) }
  }

  /** Queues one delivery of the type `webhook.test`, which is tried once. */
  async test({ orgId }: Customer, id: string): Promise<DeliveryJson> {
    const delivery = testOf(id, new Date())
    const row = await this.#options.leadership.transaction(async (tx) => {
      requireEnabled((await store.lock(tx, orgId, id)) ?? refuseNotFound())
      await takeOne(tx, orgId)
      await deliveries.insert(tx, [delivery])
      return (await deliveries.find(tx, id, delivery.id))!
    })
    this.#options.worker.nudgeLater(id)
    return deliveryToJson(row)
  }

  async listDeliveries(caller: Customer, id: string, query: deliveries.DeliveryQuery): Promise<DeliveryJson[]> {
    await this.#find(caller, id)
    const rows = await retryWhileUnavailable(() => deliveries.list(this.#options.pool, id, query))
    return rows.map(deliveryToJson)
  }

  async showDelivery(caller: Customer, id: string, deliveryId: string): Promise<DeliveryJson> {
    await this.#find(caller, id)
    const row = await retryWhileUnavailable(() => deliveries.find(this.#options.pool, id, deliveryId))
    return deliveryToJson(row ?? refuseNotFound())
  }

  /** Sends it again, with all its attempts before it. */
  async redeliver({ orgId }: Customer, id: string, deliveryId: string): Promise<DeliveryJson> {
    const row = await this.#options.leadership.transaction(async (tx) => {
      requireEnabled((await store.lock(tx, orgId, id)) ?? refuseNotFound())
      return (await deliveries.repeat(tx, id, deliveryId)) ?? refuseNotFound()
    })
    this.#options.worker.nudgeLater(id)
    return deliveryToJson(row)
  }

  /** Sends again what has settled, of events since that time: the oldest first, a limited number at once. */
  async redeliverSince({ orgId }: Customer, id: string, { since, state }: RedeliverBody): Promise<RedeliveredJson> {
    const { count, more } = await this.#options.leadership.transaction(async (tx) => {
      requireEnabled((await store.lock(tx, orgId, id)) ?? refuseNotFound())
      return deliveries.repeatSince(tx, id, { since, state: state ?? null, limit: redeliverMax })
    })
    this.#options.worker.nudgeLater(id)
    return { count, more_since: more?.toISOString() ?? null }
  }

  async #find({ orgId }: Customer, id: string): Promise<store.WebhookRow> {
    return (await retryWhileUnavailable(() => store.find(this.#options.pool, orgId, id))) ?? refuseNotFound()
  }
}

function requireEnabled({ enabled }: store.WebhookRow): void {
  if (!enabled) refuse('conflict', 'the webhook is disabled; enable it first')
}

/** Events are left out above the budget; a request is refused. */
async function takeOne(tx: Tx, orgId: string): Promise<void> {
  const left = (await budget.lock(tx, [orgId])).get(orgId) ?? 0
  if (left < 1) refuse('rate_limited', refusals.rate_limited.detail({ perSecond: budget.tokensPerSecond }))
  await budget.spend(tx, orgId, 1)
}

function testOf(webhookId: string, at: Date): deliveries.NewDelivery {
  const id = newId()
  const eventId = `test_${id}`
  const timestamp = at.toISOString()
  const type = 'webhook.test'
  const body = { id: eventId, type, timestamp, webhook_id: webhookId, sequence: null, desktop_id: null, data: {} }
  return { id, webhookId, eventId, eventAt: timestamp, type, sequence: null, body: JSON.stringify(body) }
}

const selectorOf = ({ select }: z.output<typeof changeWebhookBody>, before: store.WebhookRow): string | null => {
  if (select === undefined) return before.selector
  return select && selectorText(select)
}
