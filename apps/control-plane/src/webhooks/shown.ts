// Webhooks and deliveries as customers see them. No secret is shown but by `secretOf`.
import type { DeliveryJson, WebhookJson } from '@dormouse/contract'
import type { DeliveryRow } from './deliveries.ts'
import { publicKeyOf, validKeys } from './signing.ts'
import type { WebhookRow } from './store.ts'

export function webhookToJson(row: WebhookRow, now = new Date()): WebhookJson {
  const valid = validKeys(row.keys, now)
  const oldUntil = valid.flatMap(({ until }) => until ?? []).sort()
  return {
    id: row.id,
    url: row.url,
    types: row.types,
    select: row.selector,
    enabled: row.enabled,
    disabled_reason: row.disabledReason,
    disabled_at: row.disabledAt?.toISOString() ?? null,
    failing_since: row.failingSince?.toISOString() ?? null,
    signature: row.signature,
    public_keys: valid.flatMap(({ key }) => publicKeyOf(key) ?? []),
    old_secret_until: oldUntil.at(-1) ?? null,
    created_at: row.createdAt.toISOString(),
    updated_at: row.updatedAt.toISOString(),
  }
}

/** The present secret; null if it has a public key instead. */
export const secretOf = ({ signature, keys }: WebhookRow): string | null => (signature === 'v1' ? keys[0]!.key : null)

export const deliveryToJson = (row: DeliveryRow): DeliveryJson => ({
  id: row.id,
  webhook_id: row.webhookId,
  event_id: row.eventId,
  type: row.type,
  sequence: row.sequence,
  state: row.state,
  next_attempt_at: row.nextAt?.toISOString() ?? null,
  attempts: row.attempts.map(({ at, status, ms, error }) => ({ at, status, duration_ms: ms, error })),
  created_at: row.createdAt.toISOString(),
  settled_at: row.settledAt?.toISOString() ?? null,
})
