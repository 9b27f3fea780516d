// The keys of webhooks, and the headers that prove a delivery, after the Standard Webhooks specification. Pure.
import { createPrivateKey, generateKeyPairSync, randomBytes, sign } from 'node:crypto'
import type { WebhookSignature } from '@dormouse/contract'
import { Webhook } from 'standardwebhooks'

/** A secret (`whsec_…`), or a private key (`whsk_…`: the seed and the public key). */
export interface SigningKey {
  key: string
  /** RFC 3339; null for the present key. */
  until: string | null
}

/** Rotations in a row: above this, the oldest key ends early. */
export const keysMax = 4
const secretBytes = 32
const ed25519Bytes = 32

export function makeKey(signature: WebhookSignature): string {
  if (signature === 'v1') return `whsec_${randomBytes(secretBytes).toString('base64')}`
  const { d, x } = generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' })
  return `whsk_${Buffer.concat([Buffer.from(d!, 'base64url'), Buffer.from(x!, 'base64url')]).toString('base64')}`
}

const bytesOf = (key: string): Buffer => Buffer.from(key.slice('whsk_'.length), 'base64')

/** The public key (`whpk_…`) of a private one; null for a secret. */
export const publicKeyOf = (key: string): string | null =>
  key.startsWith('whsk_') ? `whpk_${bytesOf(key).subarray(ed25519Bytes).toString('base64')}` : null

export const validKeys = (keys: SigningKey[], at: Date): SigningKey[] =>
  keys.filter(({ until }) => until === null || new Date(until) > at)

/** The keys after a rotation: those of before sign for a while longer. */
export function rotated(keys: SigningKey[], made: string, at: Date, keepMs: number): SigningKey[] {
  const end = new Date(at.getTime() + keepMs).toISOString()
  const old = validKeys(keys, at).map(({ key, until }) => ({ key, until: until !== null && until < end ? until : end }))
  return [{ key: made, until: null }, ...validKeys(old, at)].slice(0, keysMax)
}

/** The headers of one attempt: a signature by each valid key. */
export function signedHeaders(keys: SigningKey[], id: string, at: Date, body: string): Record<string, string> {
  const seconds = Math.floor(at.getTime() / 1_000)
  const signatures = validKeys(keys, at).map(({ key }) =>
    key.startsWith('whsk_') ? signatureOf(key, `${id}.${seconds}.${body}`) : new Webhook(key).sign(id, at, body),
  )
  return { 'webhook-id': id, 'webhook-timestamp': String(seconds), 'webhook-signature': signatures.join(' ') }
}

/** The library knows no asymmetric keys. */
function signatureOf(key: string, content: string): string {
  const bytes = bytesOf(key)
  const [d, x] = [bytes.subarray(0, ed25519Bytes), bytes.subarray(ed25519Bytes)].map((part) =>
    part.toString('base64url'),
  )
  const privateKey = createPrivateKey({ key: { kty: 'OKP', crv: 'Ed25519', d, x }, format: 'jwk' })
  return `v1a,${sign(null, Buffer.from(content), privateKey).toString('base64')}`
}
