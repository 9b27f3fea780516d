// Guarantee: a plan names what to do and what would not work; an upgrade is awaited, its outcome is the exit code, and it is
// cancelled without its id.
import { expect, test } from 'vitest'
import { exitCodes } from '../failures.ts'
import { start } from '../testing/process.ts'

const id = '019a9f00-0000-7000-8000-0000000000d0'
const host = { host_id: id, host_name: 'hv-3', status: 'waiting', from_version: '0.1.0', version: null, reason: null }
const counts = { total: 1, waiting: 0, working: 0, upgraded: 0, failed: 0, skipped: 0 }
const upgrade = (state: string, one: object = {}, progress: object = {}) => ({
  id,
  state,
  version: '0.2.0',
  settled_at: ['running', 'cancelling'].includes(state) ? null : '2026-01-02T03:04:05.678Z',
  progress: { ...counts, ...progress },
  hosts: [{ ...host, ...one }],
})

const failed = { status: 'failed', reason: 'its agent still runs 0.1.0' }

test.each([
  ['upgraded', 0, { status: 'upgraded', version: '0.2.0' }, { upgraded: 1 }, /1 of 1 upgraded/],
  ['failed', exitCodes.operationFailed, failed, { failed: 1 }, /its agent still runs 0\.1\.0/],
  ['cancelled', exitCodes.cancelled, { status: 'skipped' }, { skipped: 1 }, /was cancelled/],
])('it waits until it is %s', async (state, exit, one, progress, told) => {
  const { dormouse, seen } = await start(({ method }) => ({
    body: method === 'POST' ? upgrade('running') : upgrade(state, one, progress),
  }))
  const { code, stdout, stderr } = await dormouse(['admin', 'upgrade', 'hosts', '--to', '0.2.0', '--batch', '2'])
  expect([code, stdout, stderr]).toEqual([exit, expect.stringContaining('hv-3'), expect.stringMatching(told)])
  expect(seen.map(({ method, path, body }) => `${method} ${path} ${body}`.trim())).toEqual([
    'POST /admin/v1/upgrades {"version":"0.2.0","batch":2}',
    `GET /admin/v1/upgrades/${id}`,
  ])
})

test('--cancel ends the one in progress, and --no-wait prints what has begun', async () => {
  const upgrades = [upgrade('running')]
  const { dormouse, seen } = await start(({ path, method }) => ({
    body: method === 'GET' ? { upgrades } : upgrade(path.endsWith('cancel') ? 'cancelled' : 'running'),
  }))
  const begun = await dormouse(['admin', 'upgrade', 'hosts', '--no-wait', '--json'])
  expect([begun.code, JSON.parse(begun.stdout).state]).toEqual([0, 'running'])
  expect((await dormouse(['admin', 'upgrade', 'hosts', '--cancel'])).code).toBe(0)
  expect(seen.at(-1)!.path).toBe(`/admin/v1/upgrades/${id}/cancel`)
  upgrades.length = 0
  const none = await dormouse(['admin', 'upgrade', 'hosts', '--cancel'])
  expect([none.code, none.stderr]).toEqual([exitCodes.conflict, expect.stringContaining('no upgrade is in progress')])
})

test('a plan has the releases, the steps in their order, and what would not work', async () => {
  const replica = { id, url: 'http://cp-1', version: '0.1.0', commit: 'abc', leads: true, action: 'upgrade' }
  const plan = {
    target: '0.2.0',
    replicas: [replica],
    hosts: [{ host_id: id, host_name: 'hv-3', version: '0.1.0', action: 'blocked', reason: 'it is unreachable' }],
    steps: ['install 0.2.0 where http://cp-1 runs'],
    problems: ['the host hv-3: it is unreachable'],
  }
  const { dormouse, seen } = await start(() => ({ body: plan }))
  const { code, stdout } = await dormouse(['admin', 'upgrade', 'plan', '--to', '0.2.0'])
  expect([code, seen[0]!.path]).toEqual([0, '/admin/v1/upgrades/plan'])
  for (const text of [
    'replica http://cp-1',
    'leads',
    'host hv-3',
    '1. install 0.2.0',
    'would not work:\n1. the host hv-3',
  ])
    expect(stdout).toContain(text)
})
