// Guarantee: a drain's outcome is its exit code; each desktop is named with its whole id, where it goes and why it cannot.
import { expect, test } from 'vitest'
import { exitCodes } from '../failures.ts'
import { start } from '../testing/process.ts'

const id = '019a9f00-0000-7000-8000-0000000000d0'
const hostId = '019a9f00-0000-7000-8000-0000000000cc'
const target = '019a9f00-0000-7000-8000-0000000000ce'
const desktopId = '019a9f00-0000-7000-8000-000000000001'
const progress = { total: 1, waiting: 0, working: 0, moved: 0, left: 0, gone: 0, blocked: 0 }

const desktop = {
  desktop_id: desktopId,
  org_id: '019a9f00-0000-7000-8000-0000000000ff',
  state: 'awake',
  action: 'live_move',
  to_host_id: target,
  to_host: 'hv-4',
  estimated_secs: null,
  status: 'waiting',
  hibernated: false,
  operation_id: null,
  tries: 0,
  reason: null,
}

const drain = (state: string, more: object = {}, one: object = {}) => ({
  id,
  host_id: hostId,
  host_name: 'hv-3',
  state,
  settled_at: ['running', 'cancelling', 'planned'].includes(state) ? null : '2026-01-02T03:04:05.678Z',
  progress: { ...progress, ...more },
  estimated_secs: null,
  desktops: [{ ...desktop, ...one }],
})

const blocked = { status: 'blocked', action: 'blocked', reason: { code: 'no_room', detail: 'no host has capacity' } }

/** A drain that runs at first, and ends so. */
const ending = (last: object) => start(({ method }) => ({ body: method === 'POST' ? drain('running') : last }))

test.each([
  ['drained', 0, { moved: 1 }, { status: 'moved' }, /hv-3 \(.*\) is drained: 1 moved/],
  ['blocked', exitCodes.blocked, { blocked: 1 }, blocked, /no host has capacity|1 desktops block/],
  ['cancelled', exitCodes.cancelled, { moved: 1 }, { status: 'moved' }, /1 desktops have moved and stay/],
])('it waits until it is %s', async (state, exit, counts, one, told) => {
  const { dormouse, seen } = await ending(drain(state, counts, one))
  const { code, stdout, stderr } = await dormouse(['admin', 'host', 'drain', 'hv-3'])
  expect([code, stdout, stderr]).toEqual([exit, expect.stringContaining(desktopId), expect.stringMatching(told)])
  expect(seen.map(({ method, path, body }) => `${method} ${path} ${body}`.trim())).toEqual([
    'POST /admin/v1/hosts/hv-3/drain {"sleeping":"leave","awake":"live"}',
    `GET /admin/v1/drains/${id}`,
  ])
})

test('a plan is printed and not waited for; with blockers it fails', async () => {
  const { dormouse } = await start(({ body }) => ({
    body: String(body).includes('hibernate') ? drain('planned', { blocked: 1 }, blocked) : drain('planned'),
  }))
  const plan = await dormouse(['admin', 'host', 'drain', 'hv-3', '--dry-run', '--json'])
  expect([plan.code, JSON.parse(plan.stdout).desktops[0].to_host_id]).toEqual([0, target])
  const without = await dormouse(['admin', 'host', 'drain', 'hv-3', '--dry-run', '--awake', 'hibernate'])
  expect([without.code, without.stdout]).toEqual([exitCodes.blocked, expect.stringContaining('no host has capacity')])
})

test('--no-wait answers what has begun, and --cancel finds the drain by its host', async () => {
  const hosts = [{ id: hostId, name: 'hv-3', state: 'active', drain_id: id }]
  const { dormouse, seen } = await start(({ path }) => ({
    body: path === '/admin/v1/hosts' ? { hosts } : drain(path.endsWith('cancel') ? 'cancelled' : 'running'),
  }))
  const begun = await dormouse(['admin', 'host', 'drain', 'hv-3', '--no-wait', '--json'])
  expect([begun.code, JSON.parse(begun.stdout).state]).toEqual([0, 'running'])
  expect((await dormouse(['admin', 'host', 'drain', 'hv-3', '--cancel'])).code).toBe(0)
  expect(seen.at(-1)!.path).toBe(`/admin/v1/drains/${id}/cancel`)
  hosts[0]!.drain_id = null as never
  const none = await dormouse(['admin', 'host', 'drain', 'hv-3', '--cancel'])
  expect([none.code, none.stderr]).toEqual([exitCodes.conflict, expect.stringContaining('hv-3 is not being drained')])
})
