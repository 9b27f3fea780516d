// Guarantee: a batch of input is valid as a whole or not done at all, is done at most once, shares the screen's claim with people
// and other programs, and what was typed is in no log.
import type { InputJson, StreamJson } from '@dormouse/contract'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'
import { send } from './parts/api.ts'
import { RfbClient } from './parts/rfb-client.ts'

let stack: Stack
let id: string
/** Another credential of the same organisation. */
let otherKey: string
beforeAll(async () => {
  stack = await Stack.start({ replicas: 2 })
  otherKey = (await stack.replica.parts.principals.createKey(stack.org.id, 'other')).api_key
})
afterAll(() => stack[Symbol.asyncDispose]())
beforeEach(async () => {
  id = (await stack.desktop('awake')).id
})

interface Wish {
  key?: string
  idempotencyKey?: string
  more?: object
  /** Which replica is asked. */
  at?: number
}
async function input(actions: unknown[], { key, idempotencyKey, more, at = 0 }: Wish = {}) {
  const headers: Record<string, string> = idempotencyKey === undefined ? {} : { 'idempotency-key': idempotencyKey }
  const body = { actions, pace_ms: 2, ...more }
  const wish = { body, headers, key: key ?? stack.org.key }
  return send(`${stack.replicas[at]!.url}/v1/desktops/${id}/input`, 'POST', wish)
}
const heard = () => [...stack.host.driver.heardBy(id)]
const keysDown = () => heard().flatMap((one) => ('key' in one && one.down ? [one.key] : []))
/** Reads the size of a baseline JPEG. */
function jpegSizeOf(bytes: Buffer): [width: number, height: number] {
  const frame = bytes.indexOf(Buffer.from([0xff, 0xc0]))
  return [bytes.readUInt16BE(frame + 7), bytes.readUInt16BE(frame + 5)]
}
/** A batch that goes on until it is stopped. */
const long = [
  { type: 'wait', ms: 0 },
  { type: 'hold', keys: ['Control'], ms: 50_000 },
  { type: 'key', keys: ['Enter'] },
]
const began = () => waitFor('the batch to press its key', () => keysDown().includes(0x1d))
const released = () => waitFor('the key to be released', () => heard().some((one) => 'key' in one && !one.down))
const control = (wish: object = {}, key = stack.org.key) =>
  stack.api('POST', `/v1/desktops/${id}/stream`, { body: { claim: 'control', ...wish }, key })

test('a batch is performed, with the settled screen and its picture; it counts as activity, and its text is nowhere', async () => {
  stack.secrets.learn('a text that was typed', 'correct horse battery')
  const settle = { quiet_ms: 50, max_ms: 20_000 }
  const actions = [
    { type: 'click', x: 0, y: 9 },
    { type: 'type', text: 'correct horse battery' },
  ]
  const { status, json } = await input(actions, { more: { settle, screenshot: { fit: 160 } } })
  expect(status).toBe(200)
  const { screenshot, screen, settle_ms, ...rest } = json as InputJson
  expect(rest).toEqual({
    ...{ performed: 2, outcome: 'done', reason: null, pointer: { x: 0, y: 9 } },
    ...{ settled: true, changed: true },
  })
  expect(screen).toMatchObject({ width: 320, height: 200 })
  expect(settle_ms).toBeGreaterThanOrEqual(50)
  const png = Buffer.from(screenshot!.data, 'base64')
  expect([png.readUInt32BE(16), png.readUInt32BE(20)]).toEqual([160, 100])
  const idle = await stack.api('GET', `/v1/desktops/${id}/idle`)
  expect(idle.json.awake_because.map(({ reason }: { reason: string }) => reason)).toContain('input')
  const audit = await stack.database.rows<{ details: object }>(
    `select details from audit_log where subject = $1 and action = 'input.batch'`,
    [id],
  )
  expect(audit).toEqual([{ details: { actions: 2, performed: 2, outcome: 'done' } }])
})

test('a batch can have its picture as JPEG', async () => {
  const { json } = await input([{ type: 'screenshot' }], { more: { screenshot: { format: 'jpeg', fit: 160 } } })
  expect(json.screenshot.mime_type).toBe('image/jpeg')
  expect(jpegSizeOf(Buffer.from(json.screenshot.data, 'base64'))).toEqual([160, 100])
})

test('the screen has a size, a pointer, a sequence and a holder', async () => {
  const screen = async (key = stack.org.key) => (await stack.api('GET', `/v1/desktops/${id}/screen`, { key })).json
  const before = await screen()
  expect(before).toEqual({ width: 320, height: 200, sequence: expect.any(String), pointer: null, claim: null })
  await control({}, otherKey)
  await input([{ type: 'click', x: 30, y: 40 }], { key: otherKey })
  expect(await screen()).toEqual({
    ...{ width: 320, height: 200, pointer: { x: 30, y: 40 } },
    sequence: expect.not.stringMatching(`^${before.sequence}$`),
    claim: { holder: expect.any(String), since: expect.any(String), until: expect.any(String), human_active: false },
  })
})

async function screenshot(query: string) {
  const headers = { authorization: `Bearer ${stack.org.key}` }
  const answer = await fetch(`${stack.url}/v1/desktops/${id}/screenshot?${query}`, { headers })
  const of = (name: string) => answer.headers.get(`dormouse-screen-${name}`)
  const bytes = Buffer.from(await answer.arrayBuffer())
  const said = { size: of('size'), changed: of('changed'), settled: of('settled') }
  return { type: answer.headers.get('content-type'), sequence: of('sequence')!, said, bytes }
}

test('a screenshot shows a part, in a size and a format, and names what it shows', async () => {
  const part = await screenshot('region=40,100,80,50&fit=40')
  expect([part.type, part.bytes.readUInt32BE(16), part.bytes.readUInt32BE(20)]).toEqual(['image/png', 40, 25])
  const jpeg = await screenshot('format=jpeg&quality=50')
  expect([jpeg.type, jpegSizeOf(jpeg.bytes)]).toEqual(['image/jpeg', [320, 200]])
  expect(jpeg.said).toEqual({ size: '320x200', changed: null, settled: null })
  expect(jpeg.sequence).toBe(part.sequence)
  await input([{ type: 'click', x: 9, y: 9 }])
  expect((await screenshot('format=png')).sequence).not.toBe(part.sequence)
})

test('a screenshot waits for a change, and for a quiet screen', async () => {
  const { sequence } = await screenshot('fit=16')
  const waiting = screenshot(`wait=changed&after=${sequence}&max_ms=30000&fit=16`)
  await input([{ type: 'click', x: 9, y: 9 }])
  const changed = await waiting
  expect(changed.said).toEqual({ size: '320x200', changed: 'true', settled: null })
  expect(changed.sequence).not.toBe(sequence)
  // What the caller has seen is over already.
  expect((await screenshot(`wait=changed&after=${sequence}&max_ms=30000&fit=16`)).said.changed).toBe('true')
  expect((await screenshot('wait=settled&quiet_ms=50&fit=16')).said).toMatchObject({
    changed: 'false',
    settled: 'true',
  })
  const none = await screenshot(`wait=settled&after=${(await screenshot('fit=16')).sequence}&max_ms=100&fit=16`)
  expect(none.said).toMatchObject({ changed: 'false', settled: 'false' })
})

test.each([
  ['region', 'region=1,2,3'],
  ['region', 'region=0,0,320,201'],
  ['region.width', 'region=1,2,0,4'],
  ['fit', 'fit=8'],
  ['format', 'format=gif'],
  ['quality', 'quality=50'],
  ['quality', 'format=jpeg&quality=0'],
  ['wait', 'wait=ever'],
  ['after', 'after=abc'],
  ['max_ms', 'wait=settled&max_ms=60000'],
])('a screenshot’s %s is validated: %s', async (field, query) => {
  const { status, json } = await stack.api('GET', `/v1/desktops/${id}/screenshot?${query}`)
  expect([status, json.field]).toEqual([400, field])
})

test('coordinates are pixels of the given space', async () => {
  const { json } = await input([{ type: 'move', x: 999, y: 500 }], { more: { space: { width: 1000, height: 1000 } } })
  expect(json.pointer).toEqual({ x: 319, y: 100 })
})

test.each<[string, string, unknown[], object?]>([
  [
    'actions.1.keys.0',
    'did you mean "Enter"?',
    [
      { type: 'wait', ms: 0 },
      { type: 'key', keys: ['Entr'] },
    ],
  ],
  ['actions.0.type', 'must be move, click', [{ type: 'klick' }]],
  [
    'actions.1',
    '"Ř" (U+0158) is on no key',
    [
      { type: 'key', keys: ['a'] },
      { type: 'type', text: 'aŘ' },
    ],
  ],
  ['actions.0', 'U+0007', [{ type: 'type', text: 'a\u0007' }]],
  ['actions.0.via', 'shares no clipboard', [{ type: 'type', text: 'a', via: 'clipboard' }]],
  [
    'actions.1',
    'outside of the screen of 320 × 200',
    [
      { type: 'wait', ms: 0 },
      { type: 'click', x: 320, y: 0 },
    ],
  ],
  ['actions', 'take 80000 ms, at most 60000 ms; split', [{ type: 'type', text: 'x'.repeat(2_000) }], { pace_ms: 20 }],
  ['space.width', 'at least 1', [{ type: 'click' }], { space: { width: 0, height: 1 } }],
  [
    'screenshot.region',
    'goes beyond the screen of 320 × 200 pixels',
    [{ type: 'click' }],
    { screenshot: { region: { x: 300, y: 0, width: 21, height: 1 } } },
  ],
  ['takeOver', 'did you mean "takeover"?', [{ type: 'click' }], { takeOver: true }],
])('400 names %s, and nothing is done', async (field, why, actions, more) => {
  const { status, json } = await input(actions, { more: more ?? {}, idempotencyKey: 'refused' })
  expect([status, json.field]).toEqual([400, field])
  expect(json.detail).toContain(why)
  expect(heard()).toEqual([])
  // Nothing was done under the key, so that a corrected batch can have it.
  expect((await input([{ type: 'wait', ms: 0 }], { idempotencyKey: 'refused' })).json.outcome).toBe('done')
})

test('another generation, another screen and another state are refused', async () => {
  const size = { width: 1280, height: 800 }
  const codeOf = async (more: object) => (await input([{ type: 'click' }], { more })).json.code
  expect(await codeOf({ expected_generation: 7 })).toBe('stale_generation')
  expect(await codeOf({ expected_screen: size })).toBe('screen_changed')
  expect(await codeOf({ expected_generation: 1, expected_screen: { width: 320, height: 200 } })).toBeUndefined()
  await stack.ask(id, 'hibernate')
  expect(await codeOf({})).toBe('not_awake')
})

test('with a key a batch is done once, also where it is sent twice at the same time, to two replicas', async () => {
  const once = { idempotencyKey: 'once' }
  const actions = [{ type: 'type', text: 'ab' }]
  const sent = await Promise.all([0, 1].map((at) => input(actions, { ...once, at })))
  const again = await input(actions, once)
  const another = await input([{ type: 'type', text: 'other' }], once)
  expect(keysDown()).toEqual([0x1e, 0x30])
  for (const { json } of [...sent, another]) expect(json).toEqual(again.json)
  expect(again.headers['idempotency-replayed']).toBe('true')
  expect(another.headers['idempotency-replayed']).toBe('mismatch')
})

test('a link that is lost in the middle leaves the outcome unknown: nothing is repeated, and nothing stays pressed', async () => {
  const sent = input(long, { idempotencyKey: 'lost' })
  await began()
  await stack.killAgent()
  expect((await sent).json).toMatchObject({ outcome: 'unknown', performed: null })
  await released()
  await stack.restartAgent()
  const before = heard().length
  expect((await input(long, { idempotencyKey: 'lost' })).json).toMatchObject({ outcome: 'unknown', performed: null })
  expect(heard().slice(before)).toEqual([])
})

test('a batch of a replica that was killed in the middle is unknown, and is not done again', async () => {
  await input([{ type: 'key', keys: ['a'] }], { idempotencyKey: 'cut' })
  // As such a replica leaves it behind.
  await stack.database.rows(
    `update input_batches set state = 'running', result = null, alive_until = now() - interval '1 s' where desktop_id = $1`,
    [id],
  )
  const again = await input([{ type: 'key', keys: ['a'] }], { idempotencyKey: 'cut' })
  expect(again.json).toMatchObject({ outcome: 'unknown', performed: null })
  expect(keysDown()).toEqual([0x1e])
})

test('a claim that another client holds is refused with who, since when, and whether it is in use', async () => {
  const { json } = await control({}, otherKey)
  const person = await RfbClient.connect((json as StreamJson).websocket_url)
  const refused = await input([{ type: 'click' }])
  expect(refused.json).toMatchObject({ code: 'claim_held', claim: 'control', human_active: false })
  expect(Date.parse(refused.json.since)).toBeGreaterThan(Date.now() - 60_000)
  person.type(0x61)
  await waitFor('the person’s input to be noted', async () => (await input([{ type: 'click' }])).json.human_active)
  const pressed = heard().length
  const taken = await input([{ type: 'type', text: 'a' }], { more: { takeover: true } })
  expect(taken.json.outcome).toBe('done')
  expect(heard().length).toBe(pressed + 2)
  expect(await person.closed).toMatchObject({ code: 4001 })
})

test('a person who takes the claim over stops a batch between two events; another program waits', async () => {
  const sent = input(long)
  await began()
  expect((await control({}, otherKey)).json.code).toBe('claim_held')
  expect((await input([{ type: 'click' }], { key: otherKey })).json.code).toBe('claim_held')
  expect((await control({ takeover: true }, otherKey)).status).toBe(200)
  expect((await sent).json).toMatchObject({
    outcome: 'interrupted',
    performed: 1,
    reason: expect.stringContaining('took the claim'),
  })
  await released()
  expect(keysDown()).toEqual([0x1d])
})

test('a batch borrows the claim: afterwards it is free, and a holder that was there before keeps it', async () => {
  await input([{ type: 'click' }])
  expect((await input([{ type: 'click' }], { key: otherKey })).json.outcome).toBe('done')
  const { json } = await control()
  const screen = await RfbClient.connect((json as StreamJson).websocket_url)
  await screen.frame()
  expect((await input([{ type: 'click' }])).json.outcome).toBe('done')
  expect((await control({}, otherKey)).json.code).toBe('claim_held')
  await screen.frame()
  screen.close()
})

test('a hibernation stops a batch, and nothing is pressed in what it saves', async () => {
  const sent = input(long)
  await began()
  await stack.ask(id, 'hibernate')
  expect((await sent).json).toMatchObject({
    outcome: 'interrupted',
    performed: 1,
    reason: expect.stringContaining('hibernate'),
  })
  expect(heard().at(-1)).toEqual({ key: 0x1d, down: false })
})

test('the clipboard is read and written, under the claim of the screen; its text is nowhere', async () => {
  const clipboard = (method: 'GET' | 'PUT', body?: object, key = stack.org.key) =>
    stack.api(method, `/v1/desktops/${id}/clipboard`, { ...(body && { body }), key })
  expect((await clipboard('GET')).json).toMatchObject({ status: 409, code: 'clipboard_unavailable' })
  const { faults } = stack.host.driver
  faults.keyboard = { ...faults.keyboard, clipboard: true }
  try {
    expect((await clipboard('GET')).json).toEqual({ text: null, truncated: false })
    stack.secrets.learn('a text that was copied', 'tr0ub4dor Grüße')
    expect((await clipboard('PUT', { text: 'tr0ub4dor Grüße' })).json).toEqual({ bytes: 17 })
    expect(await stack.host.driver.screenOf(id).paste()).toBe('tr0ub4dor Grüße')
    await clipboard('PUT', { text: 'no secret' })
    expect((await clipboard('GET')).json.text).toBe('no secret')
    stack.host.driver.screenOf(id).copy('in the guest\nŘ')
    await waitFor('the copied text', async () => (await clipboard('GET')).json.text === 'in the guest\nŘ')
    stack.host.driver.screenOf(id).copy('é'.repeat(200_000))
    const long = await waitFor('the long text', async () => {
      const { json } = await clipboard('GET')
      return json.truncated && json.text
    })
    expect(long).toBe('é'.repeat(131_072))
    expect((await clipboard('PUT', { text: 'a\0b' })).json).toMatchObject({ status: 400, field: 'text' })
    expect((await clipboard('PUT', { text: 'é'.repeat(131_073) })).json).toMatchObject({ status: 400, field: 'text' })
    await control({}, otherKey)
    expect((await clipboard('PUT', { text: 'x' })).json.code).toBe('claim_held')
    expect((await clipboard('PUT', { text: 'x', takeover: true })).status).toBe(200)
  } finally {
    faults.keyboard = { ...faults.keyboard, clipboard: false }
  }
})

const [shift, letterA] = [0x2a, 0x1e]
/** What is down at the end of what was heard. */
function down(all = heard()) {
  const keys = new Set<number>()
  let buttons = 0
  for (const one of all) {
    if (!('key' in one)) buttons = one.mask
    else if (one.down) keys.add(one.key)
    else keys.delete(one.key)
  }
  return { keys: [...keys], buttons }
}
const nothing = { keys: [], buttons: 0 }

/** A person's screen, with Shift and the left button held down. */
async function holding(key = stack.org.key): Promise<RfbClient> {
  const { json } = await control({}, key)
  const client = await RfbClient.connect((json as StreamJson).websocket_url)
  client.key(shift, true)
  client.point(9, 9, 1)
  await waitFor('the key and the button to be down', () => down().buttons === 1 && down().keys.includes(shift))
  return client
}

test.each([
  ['the same key', () => stack.org.key, {}],
  ['another key, which takes over', () => otherKey, { takeover: true }],
])('what a person holds is released before a batch with %s types', async (_what, key, more) => {
  const client = await holding()
  const before = heard().length
  const { json } = await input([{ type: 'type', text: 'a' }], { key: key(), more })
  expect(json).toMatchObject({ outcome: 'done' })
  const since = heard()
  const pressed = since.findIndex((one, i) => i >= before && 'key' in one && one.key === letterA)
  expect(down(since.slice(0, pressed))).toEqual(nothing)
  client.close()
})

test.each([
  ['the socket closes', async (client: RfbClient) => client.close()],
  ['another client takes over', async () => void (await control({ takeover: true }, otherKey))],
  [
    'the credential is revoked',
    async (_client: RfbClient, keyId: string) => stack.replica.parts.principals.revokeKey(keyId),
  ],
  ['the desktop hibernates', async () => void (await stack.api('POST', `/v1/desktops/${id}/hibernate?wait=true`))],
])('what a person holds is released when %s', async (_what, end) => {
  const { api_key, id: keyId } = await stack.replica.parts.principals.createKey(stack.org.id, 'a person')
  const client = await holding(api_key)
  await end(client, keyId)
  await waitFor('everything to be released', () => down().keys.length === 0 && down().buttons === 0)
  client.close()
})
