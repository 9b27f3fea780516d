// Guarantee: each event of an organisation reaches its webhooks, signed, and no other organisation's; a receiver that fails
// loses nothing, and costs others nothing.
import { newId } from '@dormouse/contract'
import { ArmedFailpoints } from '@dormouse/process'
import { Webhook } from 'standardwebhooks'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'
import type { ApiAnswer } from './parts/api.ts'
import { WebhookReceiver } from './parts/webhook-receiver.ts'

const quick = { webhookAllowPrivate: true, webhookRetryMs: [30, 30, 30] }

let stack: Stack
let receiver: WebhookReceiver
beforeAll(async () => {
  receiver = await WebhookReceiver.start()
  stack = await Stack.start({ hosts: 0, controlPlane: quick })
})
afterAll(async () => {
  await stack[Symbol.asyncDispose]()
  await receiver[Symbol.asyncDispose]()
})
beforeEach(() => {
  receiver.answer = () => 204
})

const post = (path: string, body: unknown = {}, key?: string): Promise<ApiAnswer> =>
  stack.api('POST', `/v1/webhooks${path}`, { body, ...(key && { key }) })

/** A webhook at a path of its own. No event of before is held back, which it could get, too. */
async function made(body: object = {}, key?: string) {
  await waitFor('the log to settle', async () => {
    const { seq } = await stack.replica.parts.events.now()
    const [row] = await stack.database.rows<{ last: string }>('select coalesce(max(seq), 0) as last from events')
    return seq >= Number(row!.last)
  })
  const path = `/${newId()}`
  const answer = await post('', { url: receiver.url + path, ...body }, key)
  if (answer.status !== 201) throw new Error(answer.text)
  return { ...(answer.json as { id: string; secret: string; public_keys: string[] }), path }
}

/** The webhooks of other tests are not disturbed. */
function answering(path: string, status: () => number): void {
  receiver.answer = (received) => (received.path === path ? status() : 204)
}

/** Changes a desktop, and answers its id. */
async function event(key?: string): Promise<string> {
  const answer = await stack.api('POST', '/v1/desktops', { body: { tier: 'small' }, ...(key && { key }) })
  return answer.json.id
}

const arrived = (path: string, count: number) =>
  waitFor(`${count} deliveries`, () => receiver.at(path).length >= count && receiver.at(path))

const deliveriesOf = async (id: string) => (await stack.api('GET', `/v1/webhooks/${id}/deliveries`)).json.deliveries

/** Its deliveries once all have settled, oldest first. */
async function settled(id: string, count: number) {
  let found: { state: string; type: string; attempts: unknown[] }[] = []
  const look = async () => {
    found = await deliveriesOf(id)
    return found.length === count && found.every(({ state }) => state !== 'pending')
  }
  await waitFor(`${count} settled deliveries`, look).catch((error: Error) => {
    const seen = found.map(({ type, state, attempts }) => `${type} ${state} after ${attempts.length} attempts`)
    throw new Error(`${error.message}; there are: ${seen.join(', ')}`)
  })
  return (await deliveriesOf(id)).sort((a: { sequence: number }, b: { sequence: number }) => a.sequence - b.sequence)
}

test('each event from its creation on arrives once, signed and numbered, and its delivery is logged', async () => {
  await event()
  const { id, secret, path } = await made()
  const ids = [await event(), await event(), await event()]
  const received = await arrived(path, 3)
  const log = await settled(id, 3)
  expect(receiver.at(path)).toHaveLength(3)
  const events = received.map(({ text, headers }) => new Webhook(secret).verify(text, headers as never)) as {
    id: string
    sequence: number
    desktop_id: string
  }[]
  events.sort((a, b) => a.sequence - b.sequence)
  expect(events.map(({ desktop_id, sequence }) => [desktop_id, sequence])).toEqual(
    ids.map((each, at) => [each, at + 1]),
  )
  expect(events[0]).toMatchObject({ type: 'desktop.state', webhook_id: id, data: { state: 'created' } })
  expect(received.every(({ headers, json }) => headers['webhook-id'] === json.id)).toBe(true)
  expect(log.map(({ event_id }: { event_id: string }) => event_id)).toEqual(events.map((each) => each.id))
  expect(log[0]).toMatchObject({ state: 'succeeded', attempts: [{ status: 204, error: null }], next_attempt_at: null })
})

test('only events of its types, and only of its own organisation', async () => {
  const other = await stack.otherOrg
  const own = await made({ types: ['key.created', 'key.revoked'] })
  const foreign = await made({}, other.key)
  await event()
  await stack.replica.parts.principals.createKey(stack.org.id, 'second')
  expect((await arrived(own.path, 1)).map(({ json }) => json.type)).toEqual(['key.created'])
  await event(other.key)
  expect((await arrived(foreign.path, 1)).map(({ json }) => json.sequence)).toEqual([1])
  for (const suffix of ['', '/deliveries'])
    expect((await stack.api('GET', `/v1/webhooks/${own.id}${suffix}`, { key: other.key })).status).toBe(404)
  const delivery = (await settled(own.id, 1))[0]
  const paths = ['/rotate-secret', '/test', `/deliveries/${delivery.id}/redeliver`]
  for (const each of paths) expect((await post(`/${own.id}${each}`, {}, other.key)).status, each).toBe(404)
  // Nor under a webhook of one's own.
  expect((await post(`/${foreign.id}/deliveries/${delivery.id}/redeliver`, {}, other.key)).status).toBe(404)
  const since = { since: '2020-01-01T00:00:00Z' }
  expect((await post(`/${own.id}/redeliver`, since, other.key)).status).toBe(404)
  for (const [method, body] of [['PATCH', {}] as const, ['DELETE', undefined] as const])
    expect((await stack.api(method, `/v1/webhooks/${own.id}`, { key: other.key, body })).status).toBe(404)
  const listed = await stack.api('GET', '/v1/webhooks', { key: other.key })
  expect(listed.json.webhooks.map(({ id }: { id: string }) => id)).toEqual([foreign.id])
})

test('what fails is sent again with the same id; a redirect is a failure and is not followed', async () => {
  const { id, path } = await made()
  answering(path, () => [500, 302, 204][receiver.at(path).length - 1] ?? 204)
  await event()
  const [delivery] = await settled(id, 1)
  expect(delivery.attempts).toMatchObject([
    { status: 500, error: 'status' },
    { status: 302, error: 'redirect' },
    { status: 204, error: null },
  ])
  const received = receiver.at(path)
  expect(new Set(received.map(({ headers }) => headers['webhook-id']))).toEqual(new Set([delivery.event_id]))
  expect(new Set(received.map(({ text }) => text)).size).toBe(1)
  expect(receiver.at('/elsewhere')).toEqual([])
  await waitFor('its health', async () => (await stack.api('GET', `/v1/webhooks/${id}`)).json.failing_since === null)
})

test('after the last attempt it is disabled with an event; enabled again it gets what follows, and what failed on request', async () => {
  const { id, path } = await made()
  const watching = await made({ types: ['webhook.disabled'] })
  answering(path, () => 500)
  await event()
  const [told] = await arrived(watching.path, 1)
  expect(told!.json.data).toEqual({ webhook_id: id, url: receiver.url + path, reason: 'failing' })
  const [failed] = await settled(id, 1)
  expect([failed.state, failed.attempts.length]).toEqual(['failed', 4])
  expect((await stack.api('GET', `/v1/webhooks/${id}`)).json).toMatchObject({
    enabled: false,
    disabled_reason: 'failing',
  })
  await event()
  expect((await post(`/${id}/test`)).json.code).toBe('conflict')
  receiver.answer = () => 204
  const enabled = await stack.api('PATCH', `/v1/webhooks/${id}`, { body: { enabled: true } })
  expect(enabled.json).toMatchObject({ enabled: true, disabled_reason: null, disabled_at: null, failing_since: null })
  expect((await post(`/${id}/redeliver`, { since: '2020-01-01T00:00:00Z', state: 'failed' })).json).toEqual({
    count: 1,
    more_since: null,
  })
  await event()
  expect((await settled(id, 2)).map(({ state }: { state: string }) => state)).toEqual(['succeeded', 'succeeded'])
  expect(receiver.at(path)).toHaveLength(6)
})

test('a receiver that answers 410 is disabled at once', async () => {
  const { id, path } = await made()
  answering(path, () => 410)
  await event()
  await waitFor('the end', async () => !(await stack.api('GET', `/v1/webhooks/${id}`)).json.enabled)
  expect((await stack.api('GET', `/v1/webhooks/${id}`)).json.disabled_reason).toBe('gone')
})

test('one delivery is repeated on request, with the same id; a test is tried once', async () => {
  const { id, path } = await made()
  await event()
  const [first] = await settled(id, 1)
  expect((await post(`/${id}/deliveries/${first.id}/redeliver`)).status).toBe(202)
  const again = await arrived(path, 2)
  expect(again[1]!.headers['webhook-id']).toBe(first.event_id)
  await waitFor('its log', async () => (await settled(id, 1))[0].attempts.length === 2)
  answering(path, () => 500)
  const { id: testId, sequence } = (await post(`/${id}/test`)).json
  expect(sequence).toBeNull()
  const done = await waitFor('the test', async () => {
    const { json } = await stack.api('GET', `/v1/webhooks/${id}/deliveries/${testId}`)
    return json.state !== 'pending' && json
  })
  expect([done.state, done.attempts.length, done.type]).toEqual(['failed', 1, 'webhook.test'])
  expect((await stack.api('GET', `/v1/webhooks/${id}`)).json).toMatchObject({ enabled: true, failing_since: null })
})

test('a rotation signs with both secrets, which are shown once and logged nowhere', async () => {
  const { id, secret, path } = await made()
  const rotated = (await post(`/${id}/rotate-secret`, { keep_old_secs: 60 })).json
  stack.secrets.learn('the old secret of a webhook', secret)
  expect(rotated.secret).not.toBe(secret)
  expect(rotated.old_secret_until).not.toBeNull()
  await event()
  const [first] = await arrived(path, 1)
  for (const each of [secret, rotated.secret]) new Webhook(each).verify(first!.text, first!.headers as never)
  await post(`/${id}/rotate-secret`, { keep_old_secs: 0 })
  await event()
  const [, second] = await arrived(path, 2)
  expect(() => new Webhook(rotated.secret).verify(second!.text, second!.headers as never)).toThrow('No matching')
  const shown = JSON.stringify((await stack.api('GET', '/v1/webhooks')).json)
  expect(shown).not.toContain('whsec_')
  const asymmetric = await made({ signature: 'v1a' })
  expect([asymmetric.secret, asymmetric.public_keys.length]).toEqual([null, 1])
})

test('a disabled or removed webhook gets nothing more, and a slow one delays no other', async () => {
  const [slow, quickly] = [await made(), await made()]
  const held: (() => void)[] = []
  receiver.answer = ({ path }, response) => {
    if (path !== slow.path) return 204
    held.push(() => void response.writeHead(204).end())
    return undefined
  }
  for (let i = 0; i < 12; i++) await event()
  await arrived(quickly.path, 12)
  // It has a few requests at a time, and no more.
  expect(receiver.at(slow.path).length).toBeLessThanOrEqual(4)
  const removed = await stack.api('DELETE', `/v1/webhooks/${slow.id}`)
  expect([removed.status, (await stack.api('GET', `/v1/webhooks/${slow.id}`)).status]).toEqual([204, 404])
  await stack.api('PATCH', `/v1/webhooks/${quickly.id}`, { body: { enabled: false } })
  receiver.answer = () => 204
  for (const answer of held) answer()
  const after = await made()
  await event()
  await arrived(after.path, 1)
  await settled(quickly.id, 12)
  expect(receiver.at(quickly.path)).toHaveLength(12)
  const keys = await stack.database.rows('select keys from webhooks where id = $1', [slow.id])
  expect(keys).toEqual([{ keys: [] }])
})

test('an organisation has a limited number, and a URL that cannot be delivered to is refused', async () => {
  const org = await stack.newOrg('many')
  for (let i = 0; i < 20; i++) await made({}, org.key)
  expect(await post('', { url: receiver.url }, org.key)).toMatchObject({ status: 409, json: { code: 'conflict' } })
  for (const body of [
    {},
    { url: 'nowhere' },
    { url: receiver.url, types: ['host.lost'] },
    { url: receiver.url, types: [] },
  ])
    expect((await post('', body)).status).toBe(400)
})

test('what is queued survives a leader that ends anywhere between the log and the queue, and is queued once', async () => {
  const { id, path } = await made()
  for (const place of ['queued', 'after']) {
    const { failpoints } = stack
    failpoints.set(`webhooks.log.${place}`, async () => {
      failpoints.set(`webhooks.log.${place}`, undefined)
      await stack.endTerm()
    })
    await event()
    await waitFor(`the event at ${place}`, async () => (await deliveriesOf(id)).length > 0)
  }
  // The sessions of the queue, too.
  await stack.database.endSessions('dormouse')
  await waitFor(
    'an event',
    async () => (await stack.api('POST', '/v1/desktops', { body: { tier: 'small' } })).status === 201,
  )
  const log = await settled(id, 3)
  expect(log.map(({ sequence }: { sequence: number }) => sequence)).toEqual([1, 2, 3])
  expect(new Set(log.map(({ event_id }: { event_id: string }) => event_id)).size).toBe(3)
  // At least once.
  expect(new Set((await arrived(path, 3)).map(({ json }) => json.sequence)).size).toBe(3)
})

test('without the setting, private addresses and http are refused, also for a webhook of before', async () => {
  await using own = await Stack.start({ hosts: 0, controlPlane: quick, failpoints: new ArmedFailpoints() })
  const { json } = await own.api('POST', '/v1/webhooks', { body: { url: `${receiver.url}/private` } })
  await own.restartControlPlane({ webhookAllowPrivate: false })
  for (const url of [receiver.url, 'https://127.0.0.1/', 'https://localhost/'])
    expect((await own.api('POST', '/v1/webhooks', { body: { url } })).json).toMatchObject({ status: 400, field: 'url' })
  await own.api('POST', '/v1/desktops', { body: { tier: 'small' } })
  const failed = await waitFor('the attempt', async () => {
    const { deliveries } = (await own.api('GET', `/v1/webhooks/${json.id}/deliveries`)).json
    return deliveries[0]?.attempts[0]
  })
  expect(failed).toMatchObject({ status: null, error: 'address_refused' })
  expect(receiver.at('/private')).toEqual([])
})

test('a selector of a later release stops no deliveries of others, and selects nothing', async () => {
  const [strange, usual] = [await made({ select: 'team=qa' }), await made()]
  await stack.database.rows(`update webhooks set selector = 'team ~ qa' where id = $1`, [strange.id])
  await event()
  await arrived(usual.path, 1)
  expect(receiver.at(strange.path)).toEqual([])
})
