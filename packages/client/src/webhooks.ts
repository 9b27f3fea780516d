// Webhooks: one typed call per route, and the verification of what a webhook sends. Uses only the platform's WebCrypto.
import type {
  ChangeWebhookBody,
  CreatedWebhookJson,
  CreateWebhookBody,
  DeliveryJson,
  DeliveryState,
  RedeliverBody,
  RedeliveredJson,
  RotateWebhookBody,
  WebhookEvent,
  WebhookJson,
} from '@dormouse/contract'
import { readJson, sendJson } from './bodies.ts'
import { DormouseError } from './errors.ts'
import type { CallOptions, Http } from './http.ts'
import { nextCursor } from './pages.ts'
import { path } from './path.ts'

export interface DeliveryQuery {
  state?: DeliveryState
  limit?: number
  cursor?: string
}

/** A page of deliveries; `next` is the cursor of the next page. */
export interface DeliveryPage {
  deliveries: DeliveryJson[]
  next?: string
}

/** Nothing here is retried but reads: a repeated creation or rotation would make a second secret. */
export const webhookCalls = (http: Http) => {
  const call = <T>(method: string, route: string, given: CallOptions = {}, body?: object) =>
    http.json<T>({ ...given, method, path: route, ...(body && sendJson(body)) })
  return {
    /** The only answer with the secret, but that of `rotateSecret`. */
    create: async (body: CreateWebhookBody, given?: CallOptions) =>
      call<CreatedWebhookJson>('POST', '/v1/webhooks', given, body),
    list: async (given?: CallOptions) => call<{ webhooks: WebhookJson[] }>('GET', '/v1/webhooks', given),
    get: async (id: string, given?: CallOptions) => call<WebhookJson>('GET', path`/v1/webhooks/${id}`, given),
    update: async (id: string, body: ChangeWebhookBody, given?: CallOptions) =>
      call<WebhookJson>('PATCH', path`/v1/webhooks/${id}`, given, body),
    remove: async (id: string, given?: CallOptions) => call<void>('DELETE', path`/v1/webhooks/${id}`, given),
    /** A new secret; those of before also sign for a day, or for `keep_old_secs`. */
    rotateSecret: async (id: string, body: RotateWebhookBody = {}, given?: CallOptions) =>
      call<CreatedWebhookJson>('POST', path`/v1/webhooks/${id}/rotate-secret`, given, body),
    /** Sends an event of the type `webhook.test`, once. Read the delivery again for its outcome. */
    test: async (id: string, given?: CallOptions) => call<DeliveryJson>('POST', path`/v1/webhooks/${id}/test`, given),
    /** Newest first. */
    deliveries: async (id: string, query: DeliveryQuery = {}, given: CallOptions = {}): Promise<DeliveryPage> =>
      http.run(
        { ...given, method: 'GET', path: path`/v1/webhooks/${id}/deliveries`, query: { ...query } },
        async (response) => ({
          deliveries: (await readJson<{ deliveries: DeliveryJson[] }>(response)).deliveries,
          next: nextCursor(response.headers.get('link')),
        }),
      ),
    delivery: async (id: string, delivery: string, given?: CallOptions) =>
      call<DeliveryJson>('GET', path`/v1/webhooks/${id}/deliveries/${delivery}`, given),
    /** Sends one delivery again. */
    redeliver: async (id: string, delivery: string, given?: CallOptions) =>
      call<DeliveryJson>('POST', path`/v1/webhooks/${id}/deliveries/${delivery}/redeliver`, given),
    /** Sends all that has settled since a time again, 10,000 at most. */
    redeliverSince: async (id: string, body: RedeliverBody, given?: CallOptions) =>
      call<RedeliveredJson>('POST', path`/v1/webhooks/${id}/redeliver`, given, body),
  }
}

export class WebhookVerificationError extends DormouseError {
  override name = 'WebhookVerificationError'
}

export interface VerifyOptions {
  /** How far the time of the delivery may be from now, in seconds; 300 by default. */
  toleranceSecs?: number
  /** The present time in milliseconds. */
  now?: number
}

type WebhookHeaders = Headers | Record<string, string | string[] | undefined>

/**
 * The event in a delivery, or a `WebhookVerificationError`. The payload is the body as it was received: parsed and written
 * again it has other bytes. `secret` is a `whsec_…` or a public key `whpk_…`, or a list if one of several may hold.
 */
export async function verifyWebhook(
  payload: string | Uint8Array,
  headers: WebhookHeaders,
  secret: string | readonly string[],
  { toleranceSecs = 300, now = Date.now() }: VerifyOptions = {},
): Promise<WebhookEvent> {
  const [id, timestamp, signatures] = ['id', 'timestamp', 'signature'].map((name) => header(headers, `webhook-${name}`))
  if (!id || !timestamp || !signatures) throw new WebhookVerificationError('a header of the webhook is missing')
  const seconds = /^\d{1,12}$/.test(timestamp) ? Number(timestamp) : Number.NaN
  if (!(Math.abs(now / 1_000 - seconds) <= toleranceSecs))
    throw new WebhookVerificationError('the time of the webhook is too far from now; check this machine’s clock')
  const text = typeof payload === 'string' ? payload : new TextDecoder().decode(payload)
  const content = new TextEncoder().encode(`${id}.${timestamp}.${text}`)
  for (const key of typeof secret === 'string' ? [secret] : secret)
    if (await isSigned(content, signatures, key)) return JSON.parse(text) as WebhookEvent
  throw new WebhookVerificationError(
    'no signature of the webhook matches; check the secret, and pass the body as received',
  )
}

function header(headers: WebhookHeaders, name: string): string | undefined {
  if (headers instanceof Headers) return headers.get(name) ?? undefined
  const [, value] = Object.entries(headers).find(([each]) => each.toLowerCase() === name) ?? []
  return Array.isArray(value) ? value.join(' ') : value
}

/** More signatures than this are not looked at. */
const signaturesMax = 16

async function isSigned(content: Uint8Array<ArrayBuffer>, signatures: string, key: string): Promise<boolean> {
  const isPublic = key.startsWith('whpk_')
  const bytes = decoded(key.replace(/^wh(sec|pk)_/, ''))
  if (!bytes || bytes.length === 0)
    throw new WebhookVerificationError('the secret is not valid; it begins with whsec_, or whpk_ for a public key')
  const algorithm = isPublic ? 'Ed25519' : { name: 'HMAC', hash: 'SHA-256' }
  const imported = await crypto.subtle.importKey('raw', bytes, algorithm, false, ['verify'])
  for (const each of signatures.split(' ').slice(0, signaturesMax)) {
    const [version, text = ''] = each.split(',')
    const signature = version === (isPublic ? 'v1a' : 'v1') && decoded(text)
    if (signature && (await crypto.subtle.verify(isPublic ? 'Ed25519' : 'HMAC', imported, signature, content)))
      return true
  }
  return false
}

function decoded(base64: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    return Uint8Array.from(atob(base64), (char) => char.charCodeAt(0))
  } catch {
    return undefined
  }
}
