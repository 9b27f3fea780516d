// Guarantee: a client sees what happens to its own organisation, each event once and in order, at any replica, over
// reconnects; nothing of another organisation; and a client that does not read costs little and is cut.
import { once } from 'node:events'
import { connect } from 'node:net'
import { createAdminClient, createClient, type EventJson } from '@dormouse/client'
import { expect, test } from 'vitest'
import { Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'
import { send } from './parts/api.ts'

/** In short, without what differs from run to run. */
const inShort = ({ type, data }: EventJson) =>
  `${type} ${data.kind ?? data.previous_state ?? data.claim ?? data.name ?? ''}`.trim()

/** Follows from now on, or behind the cursor, until it is disposed of. */
function follow(url: string, apiKey: string, after?: string) {
  const stop = new AbortController()
  const [events, cursors]: [EventJson[], string[]] = [[], []]
  const client = createClient({ baseUrl: url, apiKey })
  const ended = (async () => {
    const options = {
      signal: stop.signal,
      onCursor: (cursor: string) => void cursors.push(cursor),
      ...(after && { after }),
    }
    for await (const event of client.events(options)) events.push(event)
  })().catch((error: unknown) => error)
  return {
    events,
    ended,
    connected: () => waitFor('the stream to begin', () => cursors.length > 0),
    [Symbol.asyncDispose]: async () => {
      stop.abort()
      await ended
    },
  }
}

test('the life of a desktop is told, live and in pages, to its organisation alone, at each replica', async () => {
  await using stack = await Stack.start({ replicas: 2 })
  const other = await stack.otherOrg
  await using here = follow(stack.url, stack.org.key)
  await using there = follow(stack.replicas[1]!.url, stack.org.key)
  await using foreign = follow(stack.url, other.key)
  await Promise.all([here.connected(), there.connected(), foreign.connected()])
  const { id } = await stack.desktop('hibernated')
  await stack.ask(id, 'destroy')
  const told = [
    'desktop.state',
    'desktop.state created',
    'operation.running wake',
    'desktop.state waking',
    'operation.succeeded wake',
    'desktop.state awake',
    'operation.running hibernate',
    'desktop.state hibernating',
    'operation.succeeded hibernate',
    'desktop.state hibernated',
    'operation.running destroy',
    'desktop.state destroying',
    'operation.succeeded destroy',
  ]
  // An operation that begins at once is never seen as pending.
  const begun = ({ events }: { events: EventJson[] }) => events.filter(({ type }) => type !== 'operation.pending')
  const isWhole = (seen: { events: EventJson[] }) => begun(seen).length >= told.length
  await waitFor('both to see everything', () => isWhole(here) && isWhole(there))
  expect(begun(here).map(inShort).sort()).toEqual([...told].sort())
  expect(there.events).toEqual(here.events)
  const states = here.events.filter(({ type }) => type === 'desktop.state').map(({ data }) => data.state)
  expect(states).toEqual(['created', 'waking', 'awake', 'hibernating', 'hibernated', 'destroying', 'destroyed'])
  expect(new Set(here.events.map(({ desktop_id }) => desktop_id))).toEqual(new Set([id]))
  // In pages, behind any of them, and by a filter.
  const from = here.events[4]!
  const page = await stack.api('GET', `/v1/events?after=${from.id}&limit=3`)
  expect(page.json.events).toEqual(here.events.slice(5, 8))
  const filtered = await stack.client.listEvents({ types: ['operation.succeeded'], desktopId: id })
  expect(filtered.events.map(({ data }) => data.kind)).toEqual(['wake', 'hibernate', 'destroy'])
  const accepted = await stack.api('GET', `/v1/events?after=${filtered.cursor}`, {
    headers: { accept: 'application/json' },
  })
  expect(accepted.json).toEqual({ events: [], cursor: filtered.cursor, more: false })
  const all = await stack.api('GET', '/v1/events?limit=1000', { key: other.key })
  expect(all.json.events.map(inShort)).toEqual(['key.created test'])
  expect((await stack.api('GET', `/v1/events?limit=10&desktop_id=${id}`, { key: other.key })).json.events).toEqual([])
  expect(foreign.events).toEqual([])
})

test('operators see hosts and every organisation, customers see no host', async () => {
  await using stack = await Stack.start()
  const operatorKey = await stack.replica.parts.principals.createOperatorKey('ops')
  stack.secrets.learn('the operator’s key', operatorKey)
  const ops = createAdminClient({ baseUrl: stack.url, operatorKey })
  const stop = new AbortController()
  const seen: string[] = []
  let isOpen = false
  const followed = (async () => {
    for await (const { type } of ops.events({
      signal: stop.signal,
      hostId: stack.host.id,
      onCursor: () => (isOpen = true),
    }))
      seen.push(type)
  })()
  await waitFor('the stream', () => isOpen)
  await stack.api('POST', `/admin/v1/hosts/${stack.host.id}/cordon`, { key: operatorKey })
  await stack.api('POST', `/admin/v1/hosts/${stack.host.id}/uncordon`, { key: operatorKey })
  await stack.killAgent()
  await stack.database.rows(`update hosts set last_heartbeat_at = now() - interval '20 seconds'`)
  await waitFor('the silence to be noted', () => seen.includes('host.unreachable'))
  await stack.restartAgent()
  await waitFor('the host to be back', () => seen.includes('host.connected'))
  stop.abort()
  await followed
  expect(seen).toEqual(['host.cordoned', 'host.uncordoned', 'host.unreachable', 'host.connected'])
  const all = await stack.api('GET', '/admin/v1/events?limit=1000', { key: operatorKey })
  const types = all.json.events.map(({ type }: EventJson) => type)
  expect(types).toEqual(expect.arrayContaining(['host.enrolled', 'host.connected', 'key.created']))
  expect((await stack.api('GET', '/admin/v1/events?limit=5', { key: stack.org.key })).status).toBe(403)
  const own = await stack.api('GET', '/v1/events?limit=1000')
  expect(own.json.events.map(inShort)).toEqual(['key.created test'])
  expect((await stack.api('GET', '/v1/events?type=host.connected')).json).toMatchObject({
    code: 'invalid_request',
    field: 'type',
  })
})

test('over restarts and changes of leader, a client sees each event once and in order', async () => {
  await using stack = await Stack.start({ replicas: 2, hosts: 0 })
  await using client = follow(stack.replicas[1]!.url, stack.org.key)
  await client.connected()
  const create = async (): Promise<string> => {
    const url = await waitFor('a leader', () => stack.replicas.find(({ up, leads }) => up && leads)?.url)
    const made = await send(`${url}/v1/desktops`, 'POST', { key: stack.org.key, body: { tier: 'small' } }).catch(
      () => undefined,
    )
    return made?.status === 201 ? made.json.id : create()
  }
  const ids: string[] = []
  for (let turn = 0; turn < 3; turn++) {
    ids.push(await create())
    const restarted = stack.replicas[1]!.stop().then(() => stack.replicas[1]!.start())
    ids.push(await create(), await create())
    await restarted
    if (turn === 1) await stack.database.endSessions('dormouse-leadership')
    ids.push(await create())
  }
  const { cursor } = await stack.client.listEvents({ limit: 1_000 })
  await waitFor('the last event', () => client.events.at(-1)?.id === cursor)
  expect(client.events.map(({ desktop_id }) => desktop_id)).toEqual(ids)
})

test('a cursor that is too old is 410 with the oldest, one that was never a cursor is 400', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  await stack.desktop()
  const { json } = await stack.api('GET', '/v1/events?limit=1')
  await stack.database.rows('update event_log set dropped = (select max(seq) from events)')
  for (const wish of [{}, { headers: { 'last-event-id': json.cursor } }]) {
    const old = await stack.api('GET', `/v1/events?after=${json.cursor}&limit=5`, wish)
    expect(old).toMatchObject({ status: 410, json: { code: 'cursor_gone', oldest_cursor: expect.any(String) } })
    expect((await stack.api('GET', `/v1/events?after=${old.json.oldest_cursor}&limit=5`)).json.events).toEqual([])
  }
  const error = await follow(stack.url, stack.org.key, json.cursor).ended
  expect(error).toMatchObject({ code: 'cursor_gone', problem: { oldest_cursor: expect.any(String) } })
  const bad = await stack.api('GET', '/v1/events', { headers: { 'last-event-id': 'yesterday' } })
  expect(bad.json).toMatchObject({ status: 400, field: 'Last-Event-ID' })
  expect((await stack.api('GET', '/v1/events?after=yesterday&limit=1')).json).toMatchObject({
    status: 400,
    field: 'after',
  })
})

test('a stream ends with its key, with the service, and above the limit', async () => {
  await using stack = await Stack.start({ hosts: 0, controlPlane: { maxEventStreamsPerOrg: 2 } })
  const { principals } = stack.replica.parts
  const key = await principals.createKey(stack.org.id, 'short')
  stack.secrets.learn('a short key', key.api_key)
  await using one = follow(stack.url, key.api_key)
  await using two = follow(stack.url, stack.org.key)
  await Promise.all([one.connected(), two.connected()])
  const third = await stack.api('GET', '/v1/events')
  expect([third.status, third.json.code]).toEqual([429, 'rate_limited'])
  await principals.revokeKey(key.id)
  expect(await one.ended).toMatchObject({ status: 401 })
  expect(stack.replica.parts.listeners.count).toBe(1)
  await stack.replica.stop()
  await stack.replica.start()
  await stack.replica.leading()
  await stack.desktop()
  await waitFor('the event after the restart', () => two.events.some(({ type }) => type === 'desktop.state'))
  expect(two.events.map(({ type }) => type)).toEqual(['key.revoked', 'desktop.state'])
})

test('a client that never reads holds one small buffer, and is cut', async () => {
  await using stack = await Stack.start({ hosts: 0, controlPlane: { bodyStallMs: 1_500 } })
  const { port } = new URL(stack.url)
  const socket = connect({ port: Number(port), host: '127.0.0.1' })
  await once(socket, 'connect')
  socket.pause()
  socket.on('error', () => undefined)
  socket.write(`GET /v1/events HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${stack.org.key}\r\n\r\n`)
  const { listeners } = stack.replica.parts
  await waitFor('the stream', () => listeners.count === 1)
  // More than the network takes.
  await stack.database.rows(
    `insert into events (org_id, type, data) select $1, 'key.created', jsonb_build_object('name', repeat('x', 200000))
     from generate_series(1, 50)`,
    [stack.org.id],
  )
  await stack.desktop()
  await waitFor('the client to be cut', () => listeners.count === 0)
  expect(await stack.metrics()).toContain('dormouse_event_streams_ended_total{reason="slow"} 1')
  socket.destroy()
})
