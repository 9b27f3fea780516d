import pg from 'pg'
import { endBlockers } from '@dormouse/control-plane/leadership/store.ts'
import { expect, test } from 'vitest'
import { House } from '../house.ts'
import { until } from './until.ts'

async function heldBack(house: House, id: string): Promise<() => Promise<void>> {
  const client = new pg.Client({ connectionString: house.database.url })
  await client.connect()
  await client.query('begin')
  await client.query('select 1 from desktops where id = $1 for update', [id])
  return async () => { await client.query('rollback'); await client.end() }
}
const blocked = (house: House) => until('a pass to wait', async () =>
  (await house.database.rows(`select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`)).length > 0)

test('A: a desktop woken during a pass of recovery stays awake', async () => {
  await using house = await House.start()
  const first = await house.desktop('awake')
  const release = await heldBack(house, first.id)
  const pass = house.replica.parts.recovery.ask(house.host.id)
  await blocked(house)
  const second = await house.desktop('awake')
  await release()
  await pass
  expect((await house.see(second.id)).state).toBe('awake')
})

test('A2: a desktop that was asleep in the picture and woke during the pass stays awake', async () => {
  await using house = await House.start()
  const asleep = await house.desktop('hibernated')
  const first = await house.desktop('awake')
  // Items are settled in the order of the inventory; hold both, so that whichever is first waits.
  const release = await heldBack(house, first.id)
  const order = (await house.inventory()).map((item) => item.desktopId)
  const pass = house.replica.parts.recovery.ask(house.host.id)
  await blocked(house)
  await house.ask(asleep.id, 'wake')
  await release()
  await pass
  expect([order.indexOf(first.id), (await house.see(asleep.id)).state]).toEqual([0, 'awake'])
})

test('B: a wake that was accepted before a crash succeeds after it', async () => {
  await using house = await House.start()
  const { id } = await house.desktop()
  house.failpoints.set('operation.accepted', 'throw')
  await house.api('POST', `/v1/desktops/${id}/wake`)
  house.failpoints.set('operation.accepted', undefined)
  await house.restartControlPlane()
  const [row] = await house.database.rows<{ id: string }>('select id from operations')
  expect(await house.settled(row!.id)).toMatchObject({ state: 'succeeded', error: null })
})

test('C: two installations on one Postgres server', async () => {
  await using house = await House.start({ hosts: 0 })
  await using other = await House.start({ hosts: 0 })
  await house.database.rows(`update leadership set expires_at = '-infinity'`)
  const { epoch } = other.replica.parts.leadership.term!
  const ended = await endBlockers(house.replica.parts.pool)
  await new Promise((resolve) => setTimeout(resolve, 500))
  expect(other.replica.parts.leadership.term?.epoch).toBe(epoch)
  console.log({ ended })
})

test('H: fork with a broken body', async () => {
  await using house = await House.start({ hosts: 0 })
  expect((await house.api('POST', '/v1/desktops/x/fork', { body: '{' })).status).toBe(501)
})
test('J: null is omitted, also for a replay', async () => {
  await using house = await House.start({ hosts: 0 })
  const headers = { 'idempotency-key': 'a b' }
  expect((await house.api('POST', '/v1/desktops', { headers, body: { tier: 'small' } })).status).toBe(201)
  const again = await house.api('POST', '/v1/desktops', { headers, body: { tier: 'small', image_version: null, billing_mode: '' } })
  expect(again.headers['idempotency-replayed']).toBe('true')
})
