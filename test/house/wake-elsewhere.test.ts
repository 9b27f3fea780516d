// Guarantee: a desktop that sleeps on a cordoned or full host wakes on another one with its memory, where one has room; a
// failure on the way leaves it whole in one place, and the next wake works.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { House } from '../house.ts'
import type { Host } from './parts/host.ts'

const agent = { moveAddress: { host: '127.0.0.1', port: 0 } }

const cordon = (house: House, host: Host, cordoned = true) =>
  house.database.rows(`update hosts set cordoned_at = ${cordoned ? 'now()' : 'null'} where id = $1`, [host.id])

async function asleepOn(house: House): Promise<{ id: string; from: Host; to: Host }> {
  const { id } = await house.desktop('awake')
  await house.remember(id, 'kept')
  await house.ask(id, 'hibernate')
  const from = await house.hostOf(id)
  return { id, from, to: house.hosts.find((host) => host !== from)! }
}

test('it wakes elsewhere while its host is cordoned, as a wake, with its memory', async () => {
  await using house = await House.start({ hosts: 2, agent })
  const { id, from, to } = await asleepOn(house)
  await cordon(house, from)
  const woken = await house.ask(id, 'wake')
  expect(woken).toMatchObject({ kind: 'wake', result: { host_id: to.id, resumed_from: 'memory' } })
  expect(await house.recall(id)).toEqual({ memory: 'kept', disk: 'kept' })
  await house.replica.parts.recovery.sendDeferred()
  await house.shows(id, 'nothing', from)
  await house.ask(id, 'hibernate')
})

test('it wakes in place where no other host has room, or lets it in', async () => {
  await using house = await House.start({ hosts: 2 })
  const { id, from } = await asleepOn(house)
  await cordon(house, from)
  expect((await house.ask(id, 'wake')).result).toMatchObject({ host_id: from.id, resumed_from: 'memory' })
})

test.each([{ agent }, {}])('it wakes elsewhere where its host is full, also through a relay: %j', async (options) => {
  await using house = await House.start({ hosts: 2, ...options })
  const { id, from, to } = await asleepOn(house)
  await house.database.rows(
    `insert into reservations (desktop_id, host_id, vcpus, memory_mib, disk_gib) values (gen_random_uuid(), $1, 0, 1000000000, 0)`,
    [from.id],
  )
  expect((await house.ask(id, 'wake')).result).toMatchObject({ host_id: to.id, resumed_from: 'memory' })
})

describe('a failure', () => {
  let house: House
  beforeAll(async () => {
    house = await House.start({ hosts: 2, agent })
  })
  afterAll(() => house[Symbol.asyncDispose]())

  test.each(['wake.place.after', 'wake.disk.before', 'wake.disk.after', 'wake.run.before'])(
    'at "%s" leaves it hibernated and whole, and the next wake works',
    async (point) => {
      const { id, from } = await asleepOn(house)
      await cordon(house, from)
      house.failpoints.set(point, 'throw')
      const failed = await house.settled((await house.begin(id, 'wake')).id)
      house.failpoints.set(point, undefined)
      expect(failed.state).toBe('failed')
      expect((await house.see(id)).state).toBe('hibernated')
      await house.replica.parts.recovery.sendDeferred()
      await house.ask(id, 'wake')
      expect(await house.recall(id)).toEqual({ memory: 'kept', disk: 'kept' })
      await cordon(house, from, false)
    },
  )
})
