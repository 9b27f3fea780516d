// Webhooks: events that are sent to a customer's URL, after the Standard Webhooks specification, and the log of their
// deliveries.
import { z } from 'zod'
import { listOf } from './bounds.ts'
import { time } from './desktops.ts'
import { customerEventTypes, unknownEventType } from './events.ts'
import { id } from './ids.ts'
import { selector } from './labels.ts'

export const webhookUrlMax = 2_048
/** How long old secrets may stay valid after a rotation. */
export const keepOldSecretMaxSecs = 604_800

/** `v1`: HMAC-SHA256 with a shared secret. `v1a`: Ed25519; the private key never leaves the service. */
export const webhookSignature = z.enum(['v1', 'v1a'])
export type WebhookSignature = z.infer<typeof webhookSignature>

const url = z
  .string()
  .min(1)
  .max(webhookUrlMax)
  .describe('Where events are sent with POST: https, without a user name, a password or a fragment')
const types = listOf(
  z.enum(customerEventTypes, { error: unknownEventType(customerEventTypes) }),
  customerEventTypes.length,
)
  .refine((given) => given.length > 0, 'must name at least one type; leave it out for all')
  .transform((given) => [...new Set(given)])
  .describe('Only events of these types; null or left out: all, also types of later releases')
  .meta({ type: 'array', items: { type: 'string', enum: [...customerEventTypes] }, minItems: 1 })

const select = selector.describe(
  'Only events of desktops whose labels match then, such as `team=qa,run!=42,env in (a,b),owner,!old`',
)

export const createWebhookBody = z
  .object({
    url,
    types: types.nullish(),
    select: select.nullish(),
    signature: webhookSignature
      .nullish()
      .describe('`v1` (HMAC-SHA256 with a secret) when omitted; `v1a` signs with Ed25519, and shows a public key'),
  })
  .meta({ id: 'CreateWebhookBody', examples: [{ url: 'https://example.com/dormouse', types: ['desktop.state'] }] })
export type CreateWebhookBody = z.input<typeof createWebhookBody>

export const changeWebhookBody = z
  .strictObject({
    url: url.optional(),
    types: types.nullable().optional(),
    select: select.nullable().optional(),
    enabled: z
      .boolean()
      .optional()
      .describe('False stops its deliveries. True continues them; events in between are not sent'),
  })
  .meta({ id: 'ChangeWebhookBody', examples: [{ enabled: true }] })
export type ChangeWebhookBody = z.input<typeof changeWebhookBody>

export const rotateWebhookBody = z
  .object({
    keep_old_secs: z
      .int()
      .min(0)
      .max(keepOldSecretMaxSecs)
      .nullish()
      .describe('For how long deliveries are also signed with the secrets of before; 86,400 when omitted'),
  })
  .meta({ id: 'RotateWebhookBody', examples: [{ keep_old_secs: 3_600 }] })
export type RotateWebhookBody = z.input<typeof rotateWebhookBody>

/** Why a webhook is disabled. */
export const webhookDisabledReason = z.enum(['requested', 'failing', 'gone', 'backlog'])
export type WebhookDisabledReason = z.infer<typeof webhookDisabledReason>

const webhookFields = {
  id,
  url: z.string(),
  types: z.array(z.string()).nullable().describe('Null: all'),
  select: z.string().nullable().describe('The selector of its desktops; null: events of all'),
  enabled: z.boolean(),
  disabled_reason: webhookDisabledReason
    .nullable()
    .describe(
      '`requested` by a PATCH; `failing`: nothing was accepted for three days; `gone`: the receiver answered 410; `backlog`: too many deliveries wait',
    ),
  disabled_at: time.nullable(),
  failing_since: time.nullable().describe('The first failed attempt since the last successful one'),
  signature: webhookSignature,
  public_keys: z.array(z.string()).describe('`whpk_…`, the newest first; empty for `v1`'),
  old_secret_until: time.nullable().describe('Until when a secret of before the last rotation also signs'),
  created_at: time,
  updated_at: time,
}
const webhookExample = {
  id: '01980f3e-7a5c-7c1e-9d54-1c2f5e6a7b81',
  url: 'https://example.com/dormouse',
  types: null,
  select: null,
  enabled: true,
  disabled_reason: null,
  disabled_at: null,
  failing_since: null,
  signature: 'v1' as const,
  public_keys: [],
  old_secret_until: null,
  created_at: '2026-01-01T12:00:00.000Z',
  updated_at: '2026-01-01T12:00:00.000Z',
}
export const webhookJson = z.object(webhookFields).meta({ id: 'Webhook', examples: [webhookExample] })
export type WebhookJson = z.infer<typeof webhookJson>
export const webhookListJson = z.object({ webhooks: z.array(webhookJson) }).meta({ id: 'WebhookList' })

/** The only responses that contain the secret. */
export const createdWebhookJson = z
  .object({
    ...webhookFields,
    secret: z.string().nullable().describe('`whsec_…`, shown only once; null for `v1a`, which has a public key'),
  })
  .meta({ id: 'CreatedWebhook', examples: [{ ...webhookExample, secret: 'whsec_…' }] })
export type CreatedWebhookJson = z.infer<typeof createdWebhookJson>

export const deliveryState = z.enum(['pending', 'succeeded', 'failed'])
export type DeliveryState = z.infer<typeof deliveryState>

/** How an attempt failed. */
export const deliveryError = z.enum([
  'status',
  'redirect',
  'timeout',
  'name_not_resolved',
  'address_refused',
  'tls',
  'connection',
])
export type DeliveryError = z.infer<typeof deliveryError>

export const deliveryAttemptJson = z.object({
  at: time,
  status: z.int().nullable().describe('Of the response; null where there was none'),
  duration_ms: z.int().min(0),
  error: deliveryError.nullable().describe('Null: it succeeded, with a status from 200 to 299'),
})
export type DeliveryAttemptJson = z.infer<typeof deliveryAttemptJson>

export const deliveryJson = z
  .object({
    id,
    webhook_id: id,
    event_id: z.string().describe('Sent as `webhook-id`: the same at each attempt and redelivery'),
    type: z.string(),
    sequence: z
      .int()
      .nullable()
      .describe('Counts the deliveries of the webhook in the order of their events; null for a test'),
    state: deliveryState,
    next_attempt_at: time.nullable().describe('Null once it has settled'),
    attempts: z.array(deliveryAttemptJson).describe('The last 20, oldest first'),
    created_at: time,
    settled_at: time.nullable(),
  })
  .meta({
    id: 'WebhookDelivery',
    examples: [
      {
        id: '01980f3e-7a5c-7c1e-9d54-1c2f5e6a7b82',
        webhook_id: webhookExample.id,
        event_id: '1f0c7a9e2s8',
        type: 'desktop.state',
        sequence: 17,
        state: 'succeeded',
        next_attempt_at: null,
        attempts: [{ at: '2026-01-01T12:02:07.530Z', status: 204, duration_ms: 38, error: null }],
        created_at: '2026-01-01T12:02:07.520Z',
        settled_at: '2026-01-01T12:02:07.570Z',
      },
    ],
  })
export type DeliveryJson = z.infer<typeof deliveryJson>
export const deliveryListJson = z.object({ deliveries: z.array(deliveryJson) }).meta({ id: 'WebhookDeliveryList' })

/** One request repeats at most this many. */
export const redeliverMax = 10_000

export const redeliverBody = z
  .object({
    since: z.iso
      .datetime({ offset: true })
      .describe('Repeats deliveries of events since this time, oldest first, 10,000 at most'),
    state: z.enum(['succeeded', 'failed']).nullish().describe('Only those; both when omitted'),
  })
  .meta({ id: 'RedeliverBody', examples: [{ since: '2026-01-01T12:00:00Z', state: 'failed' }] })
export type RedeliverBody = z.input<typeof redeliverBody>

export const redeliveredJson = z
  .object({
    count: z.int().min(0).describe('Deliveries that will be repeated'),
    more_since: time.nullable().describe('Where there were more than fit: the `since` of the next request'),
  })
  .meta({ id: 'Redelivered', examples: [{ count: 42, more_since: null }] })
export type RedeliveredJson = z.infer<typeof redeliveredJson>

/** The body of a delivery. */
export interface WebhookEvent {
  /** The event's id, as in the log of events; the same as the header `webhook-id`. */
  id: string
  /** As in the log of events, or `webhook.test`. */
  type: string
  /** When it happened: RFC 3339, UTC. */
  timestamp: string
  webhook_id: string
  /** Counts the events of this webhook in their order, from 1, without a gap; null for a test. */
  sequence: number | null
  desktop_id: string | null
  data: Record<string, unknown>
}
