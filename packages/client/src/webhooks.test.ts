// Guarantee: `verifyWebhook` accepts what the library of the specification signs, and nothing else.
import { generateKeyPairSync, randomBytes, sign } from 'node:crypto'
import { Webhook } from 'standardwebhooks'
import { expect, test } from 'vitest'
import { verifyWebhook, WebhookVerificationError } from './webhooks.ts'

const secret = `whsec_${randomBytes(32).toString('base64')}`
const body = '{"type":"desktop.state","sequence":1,"text":"ä"}'
const at = new Date()
const timestamp = String(Math.floor(at.getTime() / 1_000))
const headers = {
  'Webhook-Id': 'x1',
  'webhook-timestamp': timestamp,
  'webhook-signature': new Webhook(secret).sign('x1', at, body),
}

test('a signature by one of several secrets is enough, in headers of any kind', async () => {
  const other = `whsec_${randomBytes(32).toString('base64')}`
  const both = { ...headers, 'webhook-signature': `v1,AAAA v9,x ${headers['webhook-signature']}` }
  const bytes = new TextEncoder().encode(body)
  expect(await verifyWebhook(body, headers, secret)).toEqual(JSON.parse(body))
  expect(await verifyWebhook(bytes, new Headers(both), [other, secret])).toMatchObject({ sequence: 1, text: 'ä' })
})

test('another body, id, time or secret is refused', async () => {
  const cases: [string, Record<string, string>, string][] = [
    [`${body} `, headers, secret],
    [body, { ...headers, 'Webhook-Id': 'x2' }, secret],
    [body, { ...headers, 'webhook-timestamp': String(Number(timestamp) - 1) }, secret],
    [body, { ...headers, 'webhook-timestamp': `${timestamp}x` }, secret],
    [body, { ...headers, 'webhook-signature': 'v1,' }, secret],
    [body, { 'webhook-id': 'x1' }, secret],
    [body, headers, `whsec_${randomBytes(32).toString('base64')}`],
    [body, headers, 'whsec_%'],
  ]
  for (const [text, given, key] of cases)
    await expect(verifyWebhook(text, given, key)).rejects.toThrow(WebhookVerificationError)
  await expect(verifyWebhook(body, headers, secret, { now: at.getTime() + 301_000 })).rejects.toThrow(
    'too far from now',
  )
})

test('a public key verifies Ed25519', async () => {
  const { privateKey } = generateKeyPairSync('ed25519')
  const { x } = privateKey.export({ format: 'jwk' })
  const key = `whpk_${Buffer.from(x!, 'base64url').toString('base64')}`
  const signature = sign(null, Buffer.from(`x1.${timestamp}.${body}`), privateKey).toString('base64')
  const signed = { ...headers, 'webhook-signature': `v1a,${signature}` }
  expect(await verifyWebhook(body, signed, key)).toMatchObject({ sequence: 1 })
  await expect(verifyWebhook(body, headers, key)).rejects.toThrow('no signature')
})
