// Guarantee: each thing that is wrong is logged once until it ends, whatever reports it again, and operators can list it.
import { newId } from '@dormouse/contract'
import { StandingAlarms } from '@dormouse/control-plane/alarms/service.ts'
import { createLog } from '@dormouse/process'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'
import { RogueHost } from './parts/rogue-host.ts'

let stack: Stack
let rogue: RogueHost
let operator: string
beforeAll(async () => {
  stack = await Stack.start()
  stack.chronicle.foresee(/no record in the database/, /more alarms were raised/, /a test finds/)
  operator = await stack.replica.parts.principals.createOperatorKey('ops')
  const { token } = await stack.replica.parts.hosts.invite('rogue')
  stack.secrets.learn('the invitation', token)
  rogue = await RogueHost.enrol(stack.url, token, 'rogue')
})
afterAll(async () => {
  await rogue[Symbol.asyncDispose]()
  await stack[Symbol.asyncDispose]()
})

const listed = async (kind: string) =>
  (await stack.api('GET', '/admin/v1/alarms', { key: operator })).json.alarms.filter(
    (alarm: { kind: string }) => alarm.kind === kind,
  )
const logged = (desktop: string) =>
  stack.chronicle.find(/no record in the database/).filter((line) => line.desktop === desktop)
const stranger = (desktopId: string) => ({
  ...{ desktopId, generation: 1, turn: 1, operationId: null, domain: 'running', memory: 'none', disk: true },
  ...{ reason: null, imageVersion: null },
})

test('what a host reports again and again is logged once, listed until it ends, and logged again when it begins again', async () => {
  const [one, two] = [newId(), newId()]
  let items = [stranger(one)]
  const handlers = {
    'host.inventory': async () => ({ items, digests: [] }),
    'host.rejoin': async () => ({ items: [] }),
  }
  await rogue.linked({ handlers })
  const compare = () => stack.replica.parts.recovery.compare(rogue.id)
  await waitFor('the alarm', () => logged(one).length > 0)
  for (let n = 0; n < 3; n++) await compare()
  expect(logged(one)).toHaveLength(1)
  const [alarm] = await listed('inventory')
  expect(alarm).toMatchObject({
    ...{ host_id: rogue.id, desktop_id: one, what: expect.stringContaining('no record in the database') },
    ...{ next: expect.stringContaining('virsh list'), since: expect.any(String) },
  })
  items = [stranger(one), stranger(two)]
  await compare()
  await compare()
  expect([logged(one).length, logged(two).length]).toEqual([1, 1])
  expect((await listed('inventory'))[0]).toEqual(alarm)
  items = [stranger(two)]
  await compare()
  expect((await listed('inventory')).map((each: { desktop_id: string }) => each.desktop_id)).toEqual([two])
  items = []
  await compare()
  expect(await listed('inventory')).toEqual([])
  items = [stranger(one)]
  await compare()
  expect(logged(one)).toHaveLength(2)
  items = []
  await compare()
})

test('the next leader does not log it again, and knows when it ends', async () => {
  const { pool, leadership } = stack.replica.parts
  const found = { subject: 'x', hostId: null, desktopId: newId(), what: 'a test finds this' }
  const log = createLog({ name: 'alarms', destination: stack.chronicle })
  const lines = () => stack.chronicle.find(/a test finds this/).length
  await new StandingAlarms({ pool, leadership }).are('ledger', 'test', [found], log)
  expect(lines()).toBe(1)
  const next = new StandingAlarms({ pool, leadership })
  await next.are('ledger', 'test', [found], log)
  expect([lines(), (await listed('ledger')).length]).toEqual([1, 1])
  await next.are('ledger', 'test', [], log)
  expect(await listed('ledger')).toEqual([])
})

test('two looks at once log it once, and a hundred things are twenty lines and one that counts the others', async () => {
  const { pool, leadership } = stack.replica.parts
  const log = createLog({ name: 'alarms', destination: stack.chronicle })
  const alarms = new StandingAlarms({ pool, leadership })
  const found = Array.from({ length: 100 }, (_, n) => ({
    ...{ subject: `${n}`, hostId: null, desktopId: newId(), what: 'a test finds many' },
  }))
  await Promise.all([1, 2, 3].map(() => alarms.are('ledger', 'many', found, log)))
  await alarms.are('ledger', 'many', found.reverse(), log)
  expect(stack.chronicle.find(/a test finds many/)).toHaveLength(20)
  expect(stack.chronicle.find(/more alarms were raised/)).toMatchObject([{ left: 80 }])
  expect(await listed('ledger')).toHaveLength(21)
  await alarms.are('ledger', 'many', [], log)
  expect(await listed('ledger')).toEqual([])
})

test('events that are held back for long are listed until they end', async () => {
  stack.chronicle.foresee(/held events back for long/)
  const { recovery } = stack.replica.parts
  for (let n = 0; n < 3; n++) await recovery.checkEvents(31_000)
  expect(stack.chronicle.find(/held events back for long/)).toMatchObject([{ secs: 31, alarmKind: 'events' }])
  expect(await listed('events')).toMatchObject([{ next: expect.stringContaining('pg_stat_activity') }])
  await recovery.checkEvents(30_000)
  expect(await listed('events')).toEqual([])
})

test('a host that is not as it should be is listed, with what to do', async () => {
  await stack.database.rows(`update hosts set quarantined_until = now() + interval '1 hour', quarantine_reason = 'why'
    where id = '${rogue.id}'`)
  expect(await listed('host_quarantined')).toMatchObject([
    { host_id: rogue.id, what: expect.stringContaining('why'), next: expect.stringContaining('uncordon rogue') },
  ])
})
