// Guarantee: receivers verify deliveries with the libraries of the Standard Webhooks specification, also during a rotation.
import { createPublicKey, verify } from 'node:crypto'
import { Webhook } from 'standardwebhooks'
import { expect, test } from 'vitest'
import { keysMax, makeKey, publicKeyOf, rotated, type SigningKey, signedHeaders, validKeys } from './signing.ts'

const id = '1f0c7a9e2s8'
const body = '{"type":"desktop.state"}'

/** As the specification defines `v1a`. */
function verifies(publicKey: string, headers: Record<string, string>): boolean {
  const x = Buffer.from(publicKey.replace('whpk_', ''), 'base64').toString('base64url')
  const key = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' })
  const content = Buffer.from(`${headers['webhook-id']}.${headers['webhook-timestamp']}.${body}`)
  const signatures = headers['webhook-signature']!.split(' ').map((each) => each.split(','))
  return signatures.some(([kind, text]) => kind === 'v1a' && verify(null, content, key, Buffer.from(text!, 'base64')))
}

test('a secret signs as the library verifies', () => {
  const key = makeKey('v1')
  expect(key).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/)
  const headers = signedHeaders([{ key, until: null }], id, new Date(), body)
  expect(new Webhook(key).verify(body, headers)).toEqual({ type: 'desktop.state' })
  expect(() => new Webhook(key).verify(`${body} `, headers)).toThrow('No matching signature')
  expect(() => new Webhook(makeKey('v1')).verify(body, headers)).toThrow('No matching signature')
})

test('a private key signs with Ed25519, and only its public key is shown', () => {
  const key = makeKey('v1a')
  const publicKey = publicKeyOf(key)!
  expect([key.slice(0, 5), publicKey.slice(0, 5)]).toEqual(['whsk_', 'whpk_'])
  expect(Buffer.from(publicKey.slice(5), 'base64')).toHaveLength(32)
  const headers = signedHeaders([{ key, until: null }], id, new Date(), body)
  expect(verifies(publicKey, headers)).toBe(true)
  expect(verifies(publicKeyOf(makeKey('v1a'))!, headers)).toBe(false)
  expect(publicKeyOf(makeKey('v1'))).toBeNull()
})

test('after a rotation both secrets sign until the old one ends, and there are never more than a few', () => {
  const at = new Date()
  const [old, present] = [makeKey('v1'), makeKey('v1')]
  let keys = rotated([{ key: old, until: null }], present, at, 60_000)
  for (const key of [old, present]) new Webhook(key).verify(body, signedHeaders(keys, id, at, body))
  const later = new Date(at.getTime() + 60_001)
  expect(validKeys(keys, later).map(({ key }) => key)).toEqual([present])
  // A second rotation does not prolong the first secret.
  const again: SigningKey[] = rotated(keys, makeKey('v1'), at, 90_000)
  expect(again.find(({ key }) => key === old)?.until).toBe(keys[1]!.until)
  for (let i = 0; i < 10; i++) keys = rotated(keys, makeKey('v1'), at, 60_000)
  expect(keys).toHaveLength(keysMax)
  expect(rotated(keys, present, at, 0)).toEqual([{ key: present, until: null }])
})
