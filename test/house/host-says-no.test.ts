// Guarantee: what a host cannot do is said in a sentence that names the cause, and the state stays true.
import { readdirSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createAdminClient } from '@dormouse/client'
import type { DesktopState, HostFacts } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { House, type HouseOptions } from '../house.ts'
import { waitFor } from '../wait-for.ts'
import { inShort } from './parts/host.ts'

const noRoom = /^no host has capacity for this desktop now; nothing was lost; retry later$/

async function refusedWake(house: House, id: string, body: object = {}): Promise<string> {
  const answer = await house.api('POST', `/v1/desktops/${id}/wake?wait=true`, { body })
  expect([answer.status, answer.json.code]).toEqual([409, 'operation_failed'])
  return answer.json.detail
}

test('no host at all, no room for memory, no such image: each is said, and the desktop is still created and bound to none', async () => {
  const cases: [HouseOptions, told: RegExp, cause: RegExp][] = [
    [{ hosts: 0 }, /^no host can take this desktop now; nothing was lost/, /^no host is linked/],
    [{ agent: { memoryMiB: 256 } }, noRoom, /sim-1 has 256 MiB of memory free, 512 are needed/],
    [{ agent: { diskGiB: 5 } }, noRoom, /sim-1 has 5 GiB of disk free, 10 are needed/],
    [
      { controlPlane: { defaultImage: 'windows' } },
      /^no host has the desktop’s image; nothing/,
      /“windows”; hosts have: mini/,
    ],
  ]
  for (const [options, told, cause] of cases) {
    await using house = await House.start(options)
    const { id } = await house.desktop()
    expect(await refusedWake(house, id)).toMatch(told)
    expect((await house.causes(id))[0]).toMatch(cause)
    expect(await house.see(id)).toMatchObject({ state: 'created', host_id: null, generation: 1 })
    expect(await house.held(id)).toBeUndefined()
  }
})

/** How many placements wait for a lock. */
const placing = async (house: House): Promise<number> =>
  (
    await house.database.rows(
      `select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'
         and (query like 'insert into reservations%' or query like 'select pg_advisory_xact_lock(%')`,
    )
  ).length

test('a host takes what it has room for and not one more, and room that is given back is used again', async () => {
  await using house = await House.start({ agent: { memoryMiB: 1_024 } })
  const awake = (await house.desktop('awake')).id
  const ids = [(await house.desktop()).id, (await house.desktop()).id]
  // Neither can write down what it takes before both have looked what there is, or wait for the other to have done so.
  const release = await house.database.hold('lock table reservations in share mode')
  const wakes = await Promise.all(ids.map((id) => house.begin(id, 'wake')))
  await waitFor('both to wait', async () => (await placing(house)) === 2)
  await release()
  const settled = await Promise.all(wakes.map(({ id }) => house.settled(id)))
  expect(settled.map(({ state }) => state).sort()).toEqual(['failed', 'succeeded'])
  expect(settled.find(({ error }) => error)?.error).toMatch(noRoom)
  const without = ids[settled.findIndex(({ state }) => state === 'failed')]!
  await house.ask(awake, 'hibernate')
  expect((await house.ask(without, 'wake')).state).toBe('succeeded')
  expect(await refusedWake(house, awake)).toMatch(noRoom)
  expect((await house.see(awake)).state).toBe('hibernated')
})

test('processors are lent out so often as the one setting says, whichever release the agent is of', async () => {
  const tierSmall = { vcpus: 2, memoryMiB: 16, diskGiB: 1 }
  await using house = await House.start({ agent: { processors: 1 }, controlPlane: { tierSmall, vcpusPerProcessor: 3 } })
  const { id } = await house.desktop('awake')
  const { id: other } = await house.desktop()
  expect(await refusedWake(house, other)).toMatch(noRoom)
  expect((await house.causes(other))[0]).toMatch(/has 1 virtual CPUs free, 2 are needed/)
  const shown = async () => (await house.replica.parts.hosts.list())[0]
  expect(await shown()).toMatchObject({ processors: 1, capacity: { vcpus: 3 }, reserved: { vcpus: 2 } })
  await house.restartControlPlane({ vcpusPerProcessor: 4 })
  await house.ask(other, 'wake')
  for (const each of [id, other]) await house.ask(each, 'hibernate')
  await house.killAgent()
  // The release before says four for each of its 24 processors, and today's default lends out as much as then: 8 × 96.
  await house.restartControlPlane({ vcpusPerProcessor: 32 })
  const [{ facts = undefined } = {}] = await house.database.rows<{ facts: HostFacts }>('select facts from hosts')
  const { processors: _, ...old } = { ...facts!, capacity: { ...facts!.capacity, vcpus: 96 } }
  await house.replica.parts.hosts.heard(house.host.id, old)
  expect(await shown()).toMatchObject({ processors: 24, capacity: { vcpus: 768 } })
})

test('a host whose hypervisor is away says so: a wake bound to it fails, and works when it is back', async () => {
  await using house = await House.start()
  const { id } = await house.desktop('hibernated')
  const refusal = await house.withDeadline(1_000, () => {
    house.host.driver.faults.down = true
    return refusedWake(house, id)
  })
  expect(refusal).toMatch(/^the desktop’s host is unreachable/)
  expect((await house.causes(id))[0]).toMatch(/hypervisor does not answer/)
  expect((await house.see(id)).state).toBe('hibernated')
  house.host.driver.faults.down = false
  house.host.driver.gap()
  await house.restartAgent()
  await house.settle()
  expect((await house.ask(id, 'wake')).result?.resumed_from).toBe('memory')
})

test('a full disk fails a hibernation by name, and the guest runs on as if nothing had been asked', async () => {
  await using house = await House.start()
  const { id } = await house.desktop('awake')
  await house.remember(id, 'on')
  house.host.driver.faults.diskFull = true
  const answer = await house.api('POST', `/v1/desktops/${id}/hibernate?wait=true`)
  expect([answer.status, answer.json.code]).toEqual([409, 'operation_failed'])
  expect(answer.json.detail).toMatch(/disk of the desktop’s host is full/)
  expect(await house.see(id)).toMatchObject({ state: 'awake', generation: 1 })
  expect(inShort(await house.observed(id))).toBe('running')
  expect(await house.recall(id)).toEqual({ memory: 'on', disk: 'on' })
  house.host.driver.faults.diskFull = false
  expect((await house.ask(id, 'hibernate')).state).toBe('succeeded')
})

test('a guest that a full disk has paused stays awake, ails its host for operators to see, and goes on when there is room', async () => {
  await using house = await House.start()
  house.chronicle.foresee(/should be awake is paused/)
  const operatorKey = await house.replica.parts.principals.createOperatorKey('ops')
  house.secrets.learn('the operator’s key', operatorKey)
  const admin = createAdminClient({ baseUrl: house.url, operatorKey, retries: 0 })
  const ailment = async () => (await admin.listHosts()).hosts[0]?.ailment
  const { id } = await house.desktop('awake')
  const { id: asleep } = await house.desktop('hibernated')
  await house.remember(id, 'on')
  house.host.driver.faults.diskFull = true
  house.host.driver.standStill(id, 'space')
  expect(await waitFor('the ailment to be heard', ailment)).toMatch(
    /^the disk is full, and 1 of its desktops are paused/,
  )
  expect((await house.see(id)).state).toBe('awake')
  expect(await house.withDeadline(1_000, () => refusedWake(house, asleep))).toMatch(
    /^the desktop’s host is unreachable/,
  )
  expect((await house.causes(asleep))[0]).toMatch(/the disk is full/)
  expect((await house.see(asleep)).state).toBe('hibernated')
  house.host.driver.faults.diskFull = false
  await house.shows(id, 'running')
  await waitFor('the host to be well', async () => (await ailment()) === null)
  expect(await house.recall(id)).toEqual({ memory: 'on', disk: 'on' })
  expect((await house.ask(asleep, 'wake')).result?.resumed_from).toBe('memory')
})

test('a full disk fails a first wake by name and leaves nothing', async () => {
  // No heartbeat reports the full disk first: placement would pass the host over.
  await using house = await House.start({ controlPlane: { heartbeatMs: 5_000 } })
  const { id } = await house.desktop()
  house.host.driver.faults.diskFull = true
  expect(await refusedWake(house, id)).toMatch(/disk of the desktop’s host is full/)
  expect(await house.see(id)).toMatchObject({ state: 'created', host_id: null })
  expect(await house.held(id)).toBeUndefined()
  expect(inShort(await house.observed(id))).toBe('nothing')
})

/** The file of the one saved memory of a desktop. */
function savedFile(house: House, id: string): string {
  const folder = join(house.host.folder, 'memory', id)
  return join(folder, readdirSync(folder).find((name) => name.endsWith('.save'))!)
}

const damages: [what: string, damage: (file: string) => void][] = [
  ['truncated', (file) => truncateSync(file, Math.floor(statSync(file).size / 2))],
  ['emptied', (file) => truncateSync(file, 0)],
  [
    'marked partial',
    (file) => {
      const bytes = readFileSync(file)
      bytes.write('LibvirtQemudPart', 0, 'latin1')
      writeFileSync(file, bytes)
    },
  ],
]

test.each(damages)(
  'a saved memory that was %s fails the wake with a sentence, is kept, and is given up only when told to',
  async (_what, damage) => {
    await using house = await House.start()
    const { id } = await house.desktop('awake')
    await house.remember(id, 'word')
    await house.ask(id, 'hibernate')
    const file = savedFile(house, id)
    damage(file)
    const bytes = readFileSync(file)
    for (let attempt = 0; attempt < 2; attempt++) {
      expect(await refusedWake(house, id)).toMatch(/^the saved memory .*discard_memory/i)
      expect((await house.see(id)).state).toBe<DesktopState>('hibernated')
      expect(readFileSync(file).equals(bytes)).toBe(true)
    }
    const cold = await house.ask(id, 'wake', { discard_memory: true })
    expect(cold.result?.resumed_from).toBe('disk')
    expect(await house.recall(id)).toEqual({ memory: '', disk: 'word' })
  },
)

test('a saved memory that is not there any more fails the wake: no desktop that slept boots from its disk unasked', async () => {
  await using house = await House.start()
  const { id } = await house.desktop('hibernated')
  rmSync(join(house.host.folder, 'memory', id), { recursive: true })
  expect(await refusedWake(house, id)).toMatch(/^the saved memory is missing on the host.*discard_memory/i)
  expect((await house.see(id)).state).toBe('hibernated')
  expect((await house.ask(id, 'wake', { discard_memory: true })).result?.resumed_from).toBe('disk')
})

test('a saved memory that is whole is given up only when told to', async () => {
  await using house = await House.start()
  const { id } = await house.desktop('awake')
  await house.remember(id, 'word')
  await house.ask(id, 'hibernate')
  expect((await house.ask(id, 'wake', { discard_memory: true })).result?.resumed_from).toBe('disk')
  expect(await house.recall(id)).toEqual({ memory: '', disk: 'word' })
})

test('a host that has nothing of a desktop any more fails its hibernation, and the state says so', async () => {
  await using house = await House.start()
  const { id } = await house.desktop('awake')
  const release = house.host.driver.faults.hang('save')
  const operation = await house.begin(id, 'hibernate')
  house.host.driver.die(id)
  release()
  const failed = await house.settled(operation.id)
  expect(failed.state).toBe('failed')
  expect((await house.becomes(id, 'stopped')).generation).toBe(1)
  expect(await house.held(id)).toBe(0)
  expect((await house.ask(id, 'wake')).result?.resumed_from).toBe('disk')
})
