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
import { notAllowed } from '../principals/rights.ts'
import { isWithin, type Scope, scopeIn } from '../principals/scope.ts'
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
    { orgId, scope }: Customer,
    { url, types, selector, signature }: NewWebhookParams,
  ): Promise<CreatedWebhookJson> {
    requireWithin(scope, selector)
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

  async list({ orgId, scope }: Customer): Promise<WebhookJson[]> {
    const rows = await retryWhileUnavailable(() => store.list(this.#options.pool, orgId))
    return rows.filter((row) => isReached(scope, row)).map((row) => webhookToJson(row))
  }

  async show(caller: Customer, id: string): Promise<WebhookJson> {
    return webhookToJson(await this.#find(caller, id))
  }

  /** An enabled one begins with the events from now on, and with what waited. */
  async change(caller: Customer, id: string, body: z.output<typeof changeWebhookBody>): Promise<WebhookJson> {
    const { leadership, feed, worker, allowPrivate } = this.#options
    const url = body.url === undefined ? undefined : checkUrl(body.url, allowPrivate)
    const { seq: afterSeq } = await feed.now()
    const row = await leadership.transaction(async (tx) => {
      const before = await this.#lock(tx, caller, id)
      const enabled = body.enabled ?? before.enabled
      const selector = selectorOf(body, before)
      requireWithin(caller.scope, selector)
      return store.put(tx, {
        ...before,
        url: url ?? before.url,
        types: body.types === undefined ? before.types : (body.types as string[] | null),
        selector,
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

  async remove(caller: Customer, id: string): Promise<void> {
    await this.#options.leadership.transaction(async (tx) => {
      await this.#lock(tx, caller, id)
      if (!(await store.remove(tx, caller.orgId, id))) refuseNotFound()
    })
  }

  /** A new secret or key. For a while deliveries are also signed with those of before. */
  async rotate(caller: Customer, id: string, keepMs: number): Promise<CreatedWebhookJson> {
    const row = await this.#options.leadership.transaction(async (tx) => {
      const before = await this.#lock(tx, caller, id)
      return store.put(tx, { ...before, keys: rotated(before.keys, makeKey(before.signature), new Date(), keepMs) })
    })
    return { ...webhookToJson(row), secret: secretOf(row) }
  }

  /** Queues one delivery of the type `webhook.test`, which is tried once. */
  async test(caller: Customer, id: string): Promise<DeliveryJson> {
    const delivery = testOf(id, new Date())
    const row = await this.#options.leadership.transaction(async (tx) => {
      requireEnabled(await this.#lock(tx, caller, id))
      await takeOne(tx, caller.orgId)
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
  async redeliver(caller: Customer, id: string, deliveryId: string): Promise<DeliveryJson> {
    const row = await this.#options.leadership.transaction(async (tx) => {
      requireEnabled(await this.#lock(tx, caller, id))
      return (await deliveries.repeat(tx, id, deliveryId)) ?? refuseNotFound()
    })
    this.#options.worker.nudgeLater(id)
    return deliveryToJson(row)
  }

  /** Sends again what has settled, of events since that time: the oldest first, a limited number at once. */
  async redeliverSince(caller: Customer, id: string, { since, state }: RedeliverBody): Promise<RedeliveredJson> {
    const { count, more } = await this.#options.leadership.transaction(async (tx) => {
      requireEnabled(await this.#lock(tx, caller, id))
      return deliveries.repeatSince(tx, id, { since, state: state ?? null, limit: redeliverMax })
    })
    this.#options.worker.nudgeLater(id)
    return { count, more_since: more?.toISOString() ?? null }
  }

  async #find({ orgId, scope }: Customer, id: string): Promise<store.WebhookRow> {
    const row = await retryWhileUnavailable(() => store.find(this.#options.pool, orgId, id))
    return row && isReached(scope, row) ? row : refuseNotFound()
  }

  async #lock(tx: Tx, { orgId, scope }: Customer, id: string): Promise<store.WebhookRow> {
    const row = await store.lock(tx, orgId, id)
    return row && isReached(scope, row) ? row : refuseNotFound()
  }
}

/** A webhook exists for the credentials whose desktops it can be about, and for no others. */
const isReached = (scope: Scope | null, { selector }: Pick<store.WebhookRow, 'selector'>): boolean =>
  isWithin(scopeIn({ selector, desktopId: null }), scope)

function requireWithin(scope: Scope | null, selector: string | null): void {
  if (isReached(scope, { selector })) return
  const why = scope?.selector
    ? `the webhook’s selector must hold every term of the credential’s, \`${selectorText(scope.selector)}\``
    : 'the credential is for one desktop, and makes no webhooks'
  throw notAllowed('admin', why)
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
