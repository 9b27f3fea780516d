// Guarantee: a first wake that fails by its host's own fault goes on at another host, and leaves nothing on the first one; a host
// whose wakes keep failing is avoided for a while, and says so.
import { expect, test } from 'vitest'
import { House } from '../house.ts'
import { waitFor } from '../wait-for.ts'
import type { Host } from './parts/host.ts'

const agent = { moveAddress: { host: '127.0.0.1', port: 0 } }

/** The first host has the most memory: new desktops go there. */
async function houseOf(hosts: number): Promise<House> {
  const house = await House.start({ agent })
  for (let at = 1; at < hosts; at++) await house.addHost({ memoryMiB: 100_000 - at * 10_000 })
  return house
}

const findingsOf = async (house: House, operationId: string) => {
  const [row] = await house.database.rows<{ findings: { tried?: string[] } }>(
    `select findings from operations where id = '${operationId}'`,
  )
  return row!.findings
}

/** With `at`, the wake is placed there first, whatever the others have free. */
async function firstWake(house: House, at?: Host) {
  const others = (cordoned: string) =>
    house.database.rows(`update hosts set cordoned_at = ${cordoned} where id <> '${at!.id}'`)
  if (at) {
    await others('now()')
    house.failpoints.set('wake.place.after', async () => void (await others('null')))
  }
  const { id } = await house.desktop()
  const { id: operationId } = await house.begin(id, 'wake')
  const settled = await house.settled(operationId)
  house.failpoints.set('wake.place.after', undefined)
  return { ...settled, desktopId: id, operationId }
}

/** Waits until no host owes a removal. */
async function removed(house: House): Promise<void> {
  await house.replica.parts.recovery.sendDeferred()
  await waitFor('the removals', async () => {
    const left = await house.database.rows('select 1 from deferred_commands')
    return left.length === 0
  })
}

const listed = async (house: House, id: string) =>
  (await house.replica.parts.hosts.list()).find((host) => host.id === id)

test.each([
  ['its disk cannot be made', 'makeDisk', 'host_disk_full'],
  ['it cannot be booted', 'startCold', 'hypervisor_failed'],
] as const)(
  'where %s, the desktop wakes on another host, and may come to the first one later',
  async (_, what, code) => {
    await using house = await houseOf(2)
    const [first, second] = house.hosts
    first!.driver.faults.failNext(what, 1, code)
    const woken = await firstWake(house, first)
    expect(woken).toMatchObject({ state: 'succeeded', result: { host_id: second!.id, resumed_from: 'image' } })
    expect(await findingsOf(house, woken.operationId)).toMatchObject({ tried: [first!.id] })
    await removed(house)
    expect(await first!.holds(woken.desktopId)).toEqual({ domain: 'absent', disk: false })
    expect(await house.inventory(first)).toEqual([])
    await house.remember(woken.desktopId, 'kept')
    await house.ask(woken.desktopId, 'hibernate')
    await house.database.rows(`update hosts set cordoned_at = now() where id = '${second!.id}'`)
    expect((await house.ask(woken.desktopId, 'wake')).result?.host_id).toBe(first!.id)
    expect(await house.recall(woken.desktopId)).toEqual({ memory: 'kept', disk: 'kept' })
  },
)

test('three hosts are tried, and no more; then the desktop is as it was', async () => {
  await using house = await houseOf(4)
  for (const { driver } of house.hosts) driver.faults.failNext('startCold', 1)
  const failed = await firstWake(house, house.host)
  expect(failed).toMatchObject({ state: 'failed', error_code: 'hypervisor_failed' })
  const { tried } = await findingsOf(house, failed.operationId)
  expect(tried).toEqual([house.host.id, expect.any(String)])
  await removed(house)
  const left = house.hosts.filter(({ id }) => tried?.includes(id))
  for (const host of left) expect(await host.holds(failed.desktopId)).toMatchObject({ disk: false })
  expect((await house.ask(failed.desktopId, 'wake')).result?.resumed_from).toMatch(/image|disk/)
})

test('a guest that never answers is no fault of its host', async () => {
  await using house = await houseOf(2)
  house.hosts[0]!.driver.faults.guestsSilent = true
  const failed = await house.withDeadline(1_500, () => firstWake(house, house.host))
  expect(failed).toMatchObject({ state: 'failed' })
  expect(await findingsOf(house, failed.operationId)).not.toHaveProperty('tried')
})

test('a desktop that has been awake stays on its host, whatever fails there', async () => {
  await using house = await houseOf(2)
  const { id, host_id } = await house.desktop('awake')
  await house.ask(id, 'hibernate')
  house.hosts[0]!.driver.faults.failNext('restorePaused', 1)
  expect(await house.settled((await house.begin(id, 'wake')).id)).toMatchObject({ error_code: 'hypervisor_failed' })
  expect((await house.see(id)).host_id).toBe(host_id)
  expect((await house.ask(id, 'wake')).result?.resumed_from).toBe('memory')
})

test('a new leader goes on at the host to which the last one went', async () => {
  await using house = await houseOf(2)
  const [first, second] = house.hosts
  first!.driver.faults.failNext('makeDisk', 1)
  const letGo = second!.driver.faults.hang('makeDisk')
  const { id } = await house.desktop()
  const others = (cordoned: string) =>
    house.database.rows(`update hosts set cordoned_at = ${cordoned} where id = '${second!.id}'`)
  await others('now()')
  house.failpoints.set('wake.place.after', async () => void (await others('null')))
  const { id: operationId } = await house.begin(id, 'wake')
  await waitFor('the desktop to be bound to the other host', async () => (await house.see(id)).host_id === second!.id)
  await house.restartControlPlane()
  letGo()
  expect(await house.settled(operationId)).toMatchObject({ state: 'succeeded', result: { host_id: second!.id } })
  expect(await findingsOf(house, operationId)).toMatchObject({ tried: [first!.id] })
})

test('a host whose wakes keep failing is quarantined while others can take desktops, until an operator uncordons it', async () => {
  await using house = await houseOf(2)
  house.chronicle.foresee(/^the wakes of a host keep failing/)
  const [first, second] = house.hosts
  first!.driver.faults.failNext('startCold', 3)
  for (let at = 0; at < 3; at++)
    expect(await firstWake(house, first)).toMatchObject({ result: { host_id: second!.id } })
  expect((await listed(house, first!.id))?.quarantine).toMatchObject({ reason: expect.stringContaining('startCold') })
  expect(await house.metrics()).toMatch(/^dormouse_hosts_quarantined\S* 1$/m)

  // Nothing fails there any more, but nobody tries.
  expect((await firstWake(house)).result?.host_id).toBe(second!.id)
  const key = await house.replica.parts.principals.createOperatorKey('ops')
  const cordon = (host: string, verb: string) => house.api('POST', `/admin/v1/hosts/${host}/${verb}`, { key, body: {} })
  await cordon(second!.id, 'cordon')
  expect((await firstWake(house)).result?.host_id).toBe(first!.id)
  await cordon(second!.id, 'uncordon')
  expect((await cordon(first!.id, 'uncordon')).json.quarantine).toBeNull()
  expect((await firstWake(house)).result?.host_id).toBe(first!.id)
})
