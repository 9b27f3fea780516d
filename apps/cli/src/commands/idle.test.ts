import { desktop, desktopId } from '@dormouse/client/testing/samples'
import type { Script } from '@dormouse/client/testing/scripted-server'
import { expect, test } from 'vitest'
import { exitCodes } from '../failures.ts'
import { start } from '../testing/process.ts'

const time = '2026-01-02T03:04:05.678Z'
const lock = { name: 'build', reason: 'a build', created_at: time, expires_at: time }
const idle = {
  desktop_id: desktopId,
  state: 'awake',
  idle_timeout_secs: 60,
  idle_policy: ['command', 'cpu'],
  activity: [
    { class: 'command', counts: true, now: true, last_at: time },
    { class: 'network', counts: false, now: false, last_at: null },
  ],
  awake_because: [{ reason: 'wake_lock', detail: 'wake lock "build": a build', until: time }],
  sleeps_at: null,
  wake_locks: [lock],
}
const usage = {
  start: 0,
  end: 1,
  desktops: [
    { desktop_id: desktopId, tier: 'small', billing_mode: 'hourly', awake_seconds: 5_400, hibernated_seconds: 0 },
  ],
  totals: [{ tier: 'small', billing_mode: 'hourly', awake_seconds: 5_400, hibernated_seconds: 0 }],
}

const service: Script = ({ method, path }) => {
  if (path === '/v1/usage') return { body: usage }
  if (method === 'PATCH') return { body: desktop() }
  if (method === 'PUT') return { body: lock }
  return { body: method === 'DELETE' ? { wake_locks: [] } : idle }
}

const asked = (seen: { method: string; path: string; body: Buffer }[]) =>
  seen.map(({ method, path, body }) => `${method} ${path} ${body}`)

test('idle says what keeps a desktop awake, and until when', async () => {
  const { dormouse, seen } = await start(service)
  const { stdout, code } = await dormouse(['idle', desktopId])
  expect(code).toBe(0)
  expect(stdout).toMatch(/sleeps +not known/)
  expect(stdout).toContain(`wake_lock      ${time}  wake lock "build": a build`)
  expect(stdout).toMatch(/command +yes +now\n/)
  expect(asked(seen)).toEqual([`GET /v1/desktops/${desktopId}/idle `])
})

test('idle changes what it is given, and then shows it', async () => {
  const { dormouse, seen } = await start(service)
  await dormouse(['idle', desktopId, '--timeout-secs', '0', '--policy', 'cpu,command'])
  await dormouse(['idle', desktopId, '--policy', 'default'])
  expect(asked(seen).filter((line) => line.startsWith('PATCH'))).toEqual([
    `PATCH /v1/desktops/${desktopId} {"idle_timeout_secs":0,"idle_policy":["command","cpu"]}`,
    `PATCH /v1/desktops/${desktopId} {"idle_policy":null}`,
  ])
})

test('lock and unlock take a name, and a time with its unit', async () => {
  const { dormouse, seen } = await start(service)
  expect((await dormouse(['lock', desktopId, 'build', '--for', '2h', '--reason', 'a build'])).stdout).toContain(time)
  expect((await dormouse(['unlock', desktopId, 'build'])).stdout).toContain('no wake lock')
  expect(asked(seen)).toEqual([
    `PUT /v1/desktops/${desktopId}/wake-locks/build {"reason":"a build","expires_in_secs":7200}`,
    `DELETE /v1/desktops/${desktopId}/wake-locks/build `,
  ])
})

test.each([
  [['lock', desktopId, 'build', '--for', '25h']],
  [['lock', desktopId, 'build', '--for', '2']],
  [['lock', desktopId, 'build']],
  [['idle', desktopId, '--policy', 'mouse']],
  [['usage', '--start', 'yesterday']],
])('wrong usage: %j', async (args) => {
  const { dormouse, seen } = await start(service)
  expect((await dormouse(args)).code).toBe(exitCodes.usage)
  expect(seen).toEqual([])
})

test('usage shows hours, and takes dates in UTC', async () => {
  const { dormouse, seen } = await start(service)
  const { stdout } = await dormouse(['usage', '--start', '2026-01-01', '--end', '2026-01-01T01:00:00'])
  expect(stdout).toContain(`${desktopId}  small  hourly   1.50 h`)
  expect([...seen[0]!.query]).toEqual([
    ['start', '1767225600'],
    ['end', '1767229200'],
  ])
})
