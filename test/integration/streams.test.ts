import { newId, type StreamClaim, type StreamJson } from '@dormouse/contract'
import { PNG } from 'pngjs'
import { expect, test } from 'vitest'
import { Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'
import type { ApiAnswer } from './parts/api.ts'
import { audience, IdentityProvider } from './parts/identity-provider.ts'
import { RfbClient } from './parts/rfb-client.ts'

const ask = (stack: Stack, id: string, body: unknown, key = stack.org.key): Promise<ApiAnswer> =>
  stack.api('POST', `/v1/desktops/${id}/stream`, { body, key })

async function claim(
  stack: Stack,
  id: string,
  wish: StreamClaim,
  more: object = {},
  key?: string,
): Promise<StreamJson> {
  const { status, text, json } = await ask(stack, id, { claim: wish, ...more }, key)
  if (status !== 200) throw new Error(`stream: ${status} ${text}`)
  return json as StreamJson
}

/** Another client of the same organisation. */
const anotherKey = async (stack: Stack) => stack.replica.parts.principals.createKey(stack.org.id, 'another')

const held = async (stack: Stack, id: string): Promise<Date | undefined> => {
  const [row] = await stack.database.rows<{ until: Date }>(
    'select held_until as until from stream_claims where desktop_id = $1',
    [id],
  )
  return row?.until
}

/** The socket of the only claim, if one is open. */
async function session(stack: Stack): Promise<string | null | undefined> {
  const [row] = await stack.database.rows<{ session: string | null }>('select session_id as session from stream_claims')
  return row?.session
}

test('a stream is a page with the token in its fragment, a socket with the token last, and 60 s', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  const { status, json } = await ask(stack, id, { claim: 'view' })
  expect(status).toBe(200)
  const token = (json.url as string).split('#')[1]!
  expect(token).toMatch(/^[\w-]{43}$/)
  expect(json).toEqual({
    url: `${stack.url}/screens/${id}/view#${token}`,
    websocket_url: `${stack.url.replace('http', 'ws')}/screens/${id}/view/${token}`,
    expires_at: expect.any(String),
    claim: 'view',
  })
  const lastsMs = new Date(json.expires_at).getTime() - Date.now()
  expect(lastsMs).toBeGreaterThan(55_000)
  expect(lastsMs).toBeLessThan(61_000)
  const stored = await stack.database.rows<{ hash: Buffer }>('select hash from stream_tokens')
  expect(stored.map(({ hash }) => hash.includes(token))).toEqual([false])
})

test('what is malformed is 400, unknown 404, not awake 409', async () => {
  await using stack = await Stack.start()
  const asleep = await stack.desktop()
  for (const body of [{}, { claim: 'both' }, { claim: null }, { claim: 'view', takeover: 'yes' }]) {
    expect((await ask(stack, asleep.id, body)).status, JSON.stringify(body)).toBe(400)
  }
  expect((await ask(stack, newId(), { claim: 'view' })).status).toBe(404)
  expect((await ask(stack, asleep.id, { claim: 'view' })).json).toMatchObject({ status: 409, code: 'not_awake' })
  const shot = await stack.api('GET', `/v1/desktops/${asleep.id}/screenshot`)
  expect(shot.json).toMatchObject({ status: 409, code: 'not_awake' })
})

test('an access token without a subject cannot claim: 403; one with it holds by it', async () => {
  await using provider = await IdentityProvider.start({})
  const controlPlane = { oidcIssuer: provider.issuer, oidcAudience: audience }
  await using stack = await Stack.start({ controlPlane })
  const { id } = await stack.desktop('awake')
  const token = (sub?: string) => provider.forge({ org_id: stack.org.id, sub })
  const nobody = await ask(stack, id, { claim: 'view' }, await token())
  expect(nobody.json).toMatchObject({ status: 403, code: 'forbidden' })
  expect((await ask(stack, id, { claim: 'view' }, await token('ada'))).status).toBe(200)
  expect((await ask(stack, id, { claim: 'view' }, await token('ada'))).status).toBe(200)
  expect((await ask(stack, id, { claim: 'view' }, await token('bob'))).json.code).toBe('claim_held')
})

test('control reaches the desktop; what a viewer says changes nothing, and both see it', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  const viewer = await RfbClient.connect((await claim(stack, id, 'view')).websocket_url)
  const driver = await RfbClient.connect((await claim(stack, id, 'control')).websocket_url)
  const before = await viewer.frame()
  expect(await driver.frame()).toEqual(before)
  viewer.type(0x61)
  viewer.point(10, 10, 1)
  viewer.send(6, 0, 0, 0, 0, 0, 0, 3, 1, 2, 3)
  viewer.send(255, 0, 0, 1, 0, 0, 0, 0x61, 0, 0, 0, 30)
  expect(await viewer.frame()).toEqual(before)
  driver.type(0x61)
  const after = await viewer.frame(true)
  expect(after.equals(before)).toBe(false)
  driver.point(100, 150, 1)
  await waitFor('the pointer to be seen', async () => !(await viewer.frame()).equals(after))
  viewer.close()
  driver.close()
})

test('what the desktop copies reaches whoever controls, and no viewer', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  const viewer = await RfbClient.connect((await claim(stack, id, 'view')).websocket_url)
  const driver = await RfbClient.connect((await claim(stack, id, 'control')).websocket_url)
  await viewer.frame()
  driver.send(6, 0, 0, 0, 0, 0, 0, 2, 0x61, 0x62)
  expect(await driver.copied()).toBe('AB')
  driver.type(0x61)
  // A picture is the next thing that it is told.
  await viewer.frame(true)
  viewer.close()
  driver.close()
})

test('a viewer that says what no screen understands is closed with 1008', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  const viewer = await RfbClient.connect((await claim(stack, id, 'view')).websocket_url)
  viewer.send(99, 1, 2, 3)
  expect((await viewer.closed).code).toBe(1008)
})

test('each claim has one holder: another gets 409 that says until when, and one replica agrees with the other', async () => {
  await using stack = await Stack.start({ replicas: 2 })
  const { id } = await stack.desktop('awake')
  const other = await anotherKey(stack)
  await claim(stack, id, 'control')
  const second = stack.replicas[1]!
  for (const url of [stack.url, second.url]) {
    const answer = await fetch(`${url}/v1/desktops/${id}/stream`, {
      method: 'POST',
      headers: { authorization: `Bearer ${other.api_key}` },
      body: JSON.stringify({ claim: 'control' }),
    })
    const problem = (await answer.json()) as { code: string; detail: string }
    expect([answer.status, problem.code]).toEqual([409, 'claim_held'])
    expect(problem.detail).toContain((await held(stack, id))!.toISOString())
  }
  // The other claim is free, and the holder may ask again.
  await claim(stack, id, 'view', {}, other.api_key)
  await claim(stack, id, 'control')
})

test('a takeover ends the old holder’s socket with 4001 on whatever replica, its tokens too, and is in the audit log', async () => {
  await using stack = await Stack.start({ replicas: 2 })
  const { id } = await stack.desktop('awake')
  const other = await anotherKey(stack)
  const first = await RfbClient.connect((await claim(stack, id, 'control')).websocket_url)
  const spare = await claim(stack, id, 'control')
  const answer = await fetch(`${stack.replicas[1]!.url}/v1/desktops/${id}/stream`, {
    method: 'POST',
    headers: { authorization: `Bearer ${other.api_key}` },
    body: JSON.stringify({ claim: 'control', takeover: true }),
  })
  const taken = (await answer.json()) as StreamJson
  expect((await first.closed).code).toBe(4001)
  expect((await RfbClient.dial(spare.websocket_url).closed).code).toBe(4001)
  const second = await RfbClient.connect(taken.websocket_url)
  await second.frame()
  const log = await stack.database.rows('select actor, action, subject, details from audit_log')
  expect(log).toEqual([
    {
      actor: `key:${other.id}`,
      action: 'stream.takeover',
      subject: id,
      details: { claim: 'control', from: expect.stringMatching(/^key:/) },
    },
  ])
  second.close()
})

test('a token opens once, for its desktop and its claim only, and not after its time', async () => {
  await using stack = await Stack.start()
  const [one, two] = [await stack.desktop('awake'), await stack.desktop('awake')]
  const { websocket_url } = await claim(stack, one.id, 'view')
  await claim(stack, one.id, 'control')
  await claim(stack, two.id, 'view')
  const refused = async (url: string) => (await RfbClient.dial(url).closed).code
  expect(await refused(websocket_url.replace('/view/', '/control/'))).toBe(4004)
  expect(await refused(websocket_url.replace(one.id, two.id))).toBe(4004)
  expect(await refused(`${websocket_url.slice(0, -4)}AAAA`)).toBe(4004)
  const client = await RfbClient.connect(websocket_url)
  expect(await refused(websocket_url)).toBe(4004)
  await client.frame()
  client.close()
  const late = await claim(stack, two.id, 'view')
  await stack.database.rows(`update stream_tokens set expires_at = now() - interval '1 s'`)
  expect(await refused(late.websocket_url)).toBe(4004)
})

test('a page of another origin is refused before any upgrade', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  const { websocket_url } = await claim(stack, id, 'view')
  const stranger = RfbClient.dial(websocket_url, { origin: 'https://elsewhere.example' })
  expect((await stranger.closed).reason).toContain('403')
  const own = await RfbClient.connect(websocket_url, { origin: stack.url })
  own.close()
})

test('a new socket of the same holder closes the older one', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  const older = await RfbClient.connect((await claim(stack, id, 'view')).websocket_url)
  const newer = await RfbClient.connect((await claim(stack, id, 'view')).websocket_url)
  expect((await older.closed).code).toBe(4001)
  await newer.frame()
  newer.close()
})

test('a claim is held while its socket is open and 30 s after; the page comes back by its ticket, once', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  const other = await anotherKey(stack)
  const { websocket_url } = await claim(stack, id, 'control')
  const again = (ticket: string) => websocket_url.replace(/[^/]+$/, ticket)
  const page = await RfbClient.connect(websocket_url, { page: true })
  const { ticket } = await waitFor('a ticket', () => page.notes[0])
  page.socket.terminate()
  await waitFor('the socket to have left', async () => (await session(stack)) === null)
  const leftMs = (await held(stack, id))!.getTime() - Date.now()
  expect(leftMs).toBeGreaterThan(20_000)
  expect(leftMs).toBeLessThan(61_000)
  expect((await ask(stack, id, { claim: 'control' }, other.api_key)).status).toBe(409)
  const back = await RfbClient.connect(again(ticket), { page: true })
  await back.frame()
  const next = await waitFor('another ticket', () => back.notes[0])
  await waitFor('the page to have it', async () => {
    const [row] = await stack.database.rows<{ before: Buffer | null }>(
      'select previous_hash as before from stream_claims',
    )
    return row?.before === null
  })
  expect((await RfbClient.dial(again(ticket)).closed).code).toBe(4004)
  back.close()
  await back.closed
  await stack.database.rows(`update stream_claims set held_until = now() - interval '1 s', session_id = null`)
  expect((await RfbClient.dial(again(next.ticket)).closed).code).toBe(4004)
  await claim(stack, id, 'control', {}, other.api_key)
})

test.concurrent('hibernation closes with 4002 and frees the claim; the page waits with its ticket and comes back after the wake', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  const { websocket_url } = await claim(stack, id, 'view')
  const page = await RfbClient.connect(websocket_url, { page: true })
  const { ticket } = await waitFor('a ticket', () => page.notes[0])
  const spare = await claim(stack, id, 'view')
  await stack.ask(id, 'hibernate')
  expect((await page.closed).code).toBe(4002)
  const waiting = websocket_url.replace(/[^/]+$/, ticket)
  expect((await RfbClient.dial(waiting).closed).code).toBe(4002)
  const release = stack.host.driver.faults.hang('restorePaused')
  const waking = stack.ask(id, 'wake')
  await waitFor('the way up', async () => {
    const { reason } = await RfbClient.dial(waiting).closed
    return reason.startsWith('the desktop is waking')
  })
  release()
  await waking
  expect((await RfbClient.dial(spare.websocket_url).closed).code).toBe(4004)
  const back = await RfbClient.connect(waiting, { page: true })
  await back.frame()
  await stack.ask(id, 'destroy')
  expect((await back.closed).code).toBe(4003)
})

test.concurrent('a page whose way broke just before its desktop fell asleep waits for it, too, beyond its grace', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  const { websocket_url } = await claim(stack, id, 'control')
  const page = await RfbClient.connect(websocket_url, { page: true })
  const waiting = websocket_url.replace(/[^/]+$/, (await waitFor('a ticket', () => page.notes[0])).ticket)
  page.socket.terminate()
  await waitFor('the socket to have left', async () => (await session(stack)) === null)
  await stack.ask(id, 'hibernate')
  const graceEnds = () => stack.database.rows(`update stream_claims set held_until = now() - interval '1 s'`)
  for (let knocks = 0; knocks < 2; knocks++) {
    expect((await RfbClient.dial(waiting).closed).code).toBe(4002)
    await graceEnds()
  }
  await stack.ask(id, 'wake')
  const back = await RfbClient.connect(waiting, { page: true })
  await back.frame()
  back.close()
})

test.concurrent('after a hibernation the claim is anybody’s', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  const other = await anotherKey(stack)
  const page = await RfbClient.connect((await claim(stack, id, 'control')).websocket_url, { page: true })
  const { ticket } = await waitFor('a ticket', () => page.notes[0])
  await stack.ask(id, 'hibernate')
  await stack.ask(id, 'wake')
  const { websocket_url } = await claim(stack, id, 'control', {}, other.api_key)
  expect((await RfbClient.dial(websocket_url.replace(/[^/]+$/, ticket)).closed).code).toBe(4004)
  const client = await RfbClient.connect(websocket_url)
  client.close()
})

test.concurrent('a revoked key’s socket ends with 4004, a dead desktop’s with 4002, a lost host’s with 4005', async () => {
  await using stack = await Stack.start()
  const [one, two, three] = [await stack.desktop('awake'), await stack.desktop('awake'), await stack.desktop('awake')]
  const other = await anotherKey(stack)
  const first = await RfbClient.connect((await claim(stack, one.id, 'view', {}, other.api_key)).websocket_url)
  await stack.replica.parts.principals.revokeKey(other.id)
  expect((await first.closed).code).toBe(4004)
  const second = await RfbClient.connect((await claim(stack, two.id, 'view')).websocket_url)
  stack.host.driver.die(two.id)
  expect((await second.closed).code).toBe(4002)
  const third = await RfbClient.connect((await claim(stack, three.id, 'view')).websocket_url)
  const { websocket_url } = await claim(stack, three.id, 'control')
  await stack.killAgent()
  expect((await third.closed).code).toBe(4005)
  expect((await RfbClient.dial(websocket_url).closed).code).toBe(4005)
  await stack.restartAgent()
  const again = await RfbClient.connect((await claim(stack, three.id, 'view')).websocket_url)
  await again.frame()
  again.close()
})

test.concurrent('a control plane that stops says 1001, and the page is back after its restart by its ticket', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  const { websocket_url } = await claim(stack, id, 'control')
  const page = await RfbClient.connect(websocket_url, { page: true })
  const { ticket } = await waitFor('a ticket', () => page.notes[0])
  await stack.restartControlPlane()
  expect((await page.closed).code).toBe(1001)
  const back = await RfbClient.connect(websocket_url.replace(/[^/]+$/, ticket), { page: true })
  await back.frame()
  back.close()
})

test.concurrent('the leader changes and a screen goes on', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  const client = await RfbClient.connect((await claim(stack, id, 'control')).websocket_url)
  const before = await client.frame()
  await stack.endTerm()
  client.type(0x62)
  expect((await client.frame(true)).equals(before)).toBe(false)
  client.close()
})

test.concurrent('a screenshot is a PNG of the screen now, for anybody of the organisation, and needs no claim', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  const shoot = async () => {
    const answer = await fetch(`${stack.url}/v1/desktops/${id}/screenshot`, {
      headers: { authorization: `Bearer ${stack.org.key}` },
    })
    expect([answer.status, answer.headers.get('content-type')]).toEqual([200, 'image/png'])
    return PNG.sync.read(Buffer.from(await answer.arrayBuffer()))
  }
  const before = await shoot()
  expect([before.width, before.height]).toEqual([320, 200])
  const client = await RfbClient.connect((await claim(stack, id, 'control')).websocket_url)
  client.type(0x41)
  await client.frame()
  expect([...(await shoot()).data.subarray(0, 4)]).toEqual([0x41, 255, 255, 255])
  client.close()
})

test.concurrent('a picture that does not come is 504, a host out of reach 503', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  const release = stack.host.driver.faults.hang('screen')
  const late = await stack.api('GET', `/v1/desktops/${id}/screenshot`)
  expect(late.json).toMatchObject({ status: 504, code: 'guest_deadline' })
  release()
  await stack.killAgent()
  const lost = await stack.api('GET', `/v1/desktops/${id}/screenshot`)
  expect(lost.json).toMatchObject({ status: 503, code: 'host_unreachable' })
  expect(lost.headers['retry-after']).toBeDefined()
})

test.concurrent('no token is in any log line', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  const { websocket_url } = await claim(stack, id, 'control')
  const page = await RfbClient.connect(websocket_url, { page: true })
  const { ticket } = await waitFor('a ticket', () => page.notes[0])
  await RfbClient.dial(websocket_url).closed
  page.close()
  await page.closed
  const lines = JSON.stringify(stack.chronicle.lines)
  expect(lines).toContain('a screen was opened')
  expect(lines).not.toContain(websocket_url.slice(-43))
  expect(lines).not.toContain(ticket)
})
