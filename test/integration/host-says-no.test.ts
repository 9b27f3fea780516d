// Guarantee: what a host cannot do is said in a sentence that names the cause, and the state stays true.
import { readdirSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createAdminClient } from '@dormouse/client'
import type { DesktopState } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { Stack, type StackOptions } from '../stack.ts'
import { waitFor } from '../wait-for.ts'
import { inShort } from './parts/host.ts'

const noRoom = /^no host has capacity for this desktop now; nothing was lost; retry later$/

async function refusedWake(stack: Stack, id: string, body: object = {}): Promise<string> {
  const answer = await stack.api('POST', `/v1/desktops/${id}/wake?wait=true`, { body })
  expect([answer.status, answer.json.code]).toEqual([409, 'operation_failed'])
  return answer.json.detail
}

test('no host at all, no room for memory, no such image: each is said, and the desktop is still created and bound to none', async () => {
  const cases: [StackOptions, told: RegExp, cause: RegExp][] = [
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
    await using stack = await Stack.start(options)
    const { id } = await stack.desktop()
    expect(await refusedWake(stack, id)).toMatch(told)
    expect((await stack.causes(id))[0]).toMatch(cause)
    expect(await stack.see(id)).toMatchObject({ state: 'created', host_id: null, generation: 1 })
    expect(await stack.held(id)).toBeUndefined()
  }
})

/** How many placements wait for a lock. */
const placing = async (stack: Stack): Promise<number> =>
  (
    await stack.database.rows(
      `select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'
         and (query like 'insert into reservations%' or query like 'select pg_advisory_xact_lock(%')`,
    )
  ).length

test('a host takes what it has room for and not one more, and room that is given back is used again', async () => {
  await using stack = await Stack.start({ agent: { memoryMiB: 1_024 } })
  const awake = (await stack.desktop('awake')).id
  const ids = [(await stack.desktop()).id, (await stack.desktop()).id]
  // Neither can write down what it takes before both have looked what there is, or wait for the other to have done so.
  const release = await stack.database.hold('lock table reservations in share mode')
  const wakes = await Promise.all(ids.map((id) => stack.begin(id, 'wake')))
  await waitFor('both to wait', async () => (await placing(stack)) === 2)
  await release()
  const settled = await Promise.all(wakes.map(({ id }) => stack.settled(id)))
  expect(settled.map(({ state }) => state).sort()).toEqual(['failed', 'succeeded'])
  expect(settled.find(({ error }) => error)?.error).toMatch(noRoom)
  const without = ids[settled.findIndex(({ state }) => state === 'failed')]!
  await stack.ask(awake, 'hibernate')
  expect((await stack.ask(without, 'wake')).state).toBe('succeeded')
  expect(await refusedWake(stack, awake)).toMatch(noRoom)
  expect((await stack.see(awake)).state).toBe('hibernated')
})

test('processors are lent out so often as the one setting says', async () => {
  const tierSmall = { vcpus: 2, memoryMiB: 16, diskGiB: 1 }
  await using stack = await Stack.start({ agent: { processors: 1 }, controlPlane: { tierSmall, vcpusPerProcessor: 3 } })
  await stack.desktop('awake')
  const { id: other } = await stack.desktop()
  expect(await refusedWake(stack, other)).toMatch(noRoom)
  expect((await stack.causes(other))[0]).toMatch(/has 1 virtual CPUs free, 2 are needed/)
  const shown = async () => (await stack.replica.parts.hosts.list())[0]
  expect(await shown()).toMatchObject({ processors: 1, capacity: { vcpus: 3 }, reserved: { vcpus: 2 } })
  await stack.restartControlPlane({ vcpusPerProcessor: 4 })
  await stack.ask(other, 'wake')
})

test('a host whose hypervisor is away says so: a wake bound to it fails, and works when it is back', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('hibernated')
  const refusal = await stack.withDeadline(1_000, () => {
    stack.host.driver.faults.down = true
    return refusedWake(stack, id)
  })
  expect(refusal).toMatch(/^the desktop’s host is unreachable/)
  expect((await stack.causes(id))[0]).toMatch(/hypervisor does not answer/)
  expect((await stack.see(id)).state).toBe('hibernated')
  stack.host.driver.faults.down = false
  stack.host.driver.gap()
  await stack.restartAgent()
  await stack.settle()
  expect((await stack.ask(id, 'wake')).result?.resumed_from).toBe('memory')
})

test('a full disk fails a hibernation by name, and the guest runs on as if nothing had been asked', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  await stack.remember(id, 'on')
  stack.host.driver.faults.diskFull = true
  const answer = await stack.api('POST', `/v1/desktops/${id}/hibernate?wait=true`)
  expect([answer.status, answer.json.code]).toEqual([409, 'operation_failed'])
  expect(answer.json.detail).toMatch(/disk of the desktop’s host is full/)
  expect(await stack.see(id)).toMatchObject({ state: 'awake', generation: 1 })
  expect(inShort(await stack.observed(id))).toBe('running')
  expect(await stack.recall(id)).toEqual({ memory: 'on', disk: 'on' })
  stack.host.driver.faults.diskFull = false
  expect((await stack.ask(id, 'hibernate')).state).toBe('succeeded')
})

test('a guest that a full disk has paused stays awake, ails its host for operators to see, and goes on when there is room', async () => {
  await using stack = await Stack.start()
  stack.chronicle.foresee(/should be awake is paused/)
  const operatorKey = await stack.replica.parts.principals.createOperatorKey('ops')
  stack.secrets.learn('the operator’s key', operatorKey)
  const admin = createAdminClient({ baseUrl: stack.url, operatorKey, retries: 0 })
  const ailment = async () => (await admin.listHosts()).hosts[0]?.ailment
  const { id } = await stack.desktop('awake')
  const { id: asleep } = await stack.desktop('hibernated')
  await stack.remember(id, 'on')
  stack.host.driver.faults.diskFull = true
  stack.host.driver.standStill(id, 'space')
  expect(await waitFor('the ailment to be heard', ailment)).toMatch(
    /^the disk is full, and 1 of its desktops are paused/,
  )
  expect((await stack.see(id)).state).toBe('awake')
  expect(await stack.withDeadline(1_000, () => refusedWake(stack, asleep))).toMatch(
    /^the desktop’s host is unreachable/,
  )
  expect((await stack.causes(asleep))[0]).toMatch(/the disk is full/)
  expect((await stack.see(asleep)).state).toBe('hibernated')
  stack.host.driver.faults.diskFull = false
  await stack.shows(id, 'running')
  await waitFor('the host to be well', async () => (await ailment()) === null)
  expect(await stack.recall(id)).toEqual({ memory: 'on', disk: 'on' })
  expect((await stack.ask(asleep, 'wake')).result?.resumed_from).toBe('memory')
})

test('a full disk fails a first wake by name and leaves nothing', async () => {
  // No heartbeat reports the full disk first: placement would pass the host over.
  await using stack = await Stack.start({ controlPlane: { heartbeatMs: 5_000 } })
  const { id } = await stack.desktop()
  stack.host.driver.faults.diskFull = true
  expect(await refusedWake(stack, id)).toMatch(/disk of the desktop’s host is full/)
  expect(await stack.see(id)).toMatchObject({ state: 'created', host_id: null })
  expect(await stack.held(id)).toBeUndefined()
  expect(inShort(await stack.observed(id))).toBe('nothing')
})

/** The file of the one saved memory of a desktop. */
function savedFile(stack: Stack, id: string): string {
  const folder = join(stack.host.folder, 'memory', id)
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
    await using stack = await Stack.start()
    const { id } = await stack.desktop('awake')
    await stack.remember(id, 'word')
    await stack.ask(id, 'hibernate')
    const file = savedFile(stack, id)
    damage(file)
    const bytes = readFileSync(file)
    for (let attempt = 0; attempt < 2; attempt++) {
      expect(await refusedWake(stack, id)).toMatch(/^the saved memory .*discard_memory/i)
      expect((await stack.see(id)).state).toBe<DesktopState>('hibernated')
      expect(readFileSync(file).equals(bytes)).toBe(true)
    }
    const cold = await stack.ask(id, 'wake', { discard_memory: true })
    expect(cold.result?.resumed_from).toBe('disk')
    expect(await stack.recall(id)).toEqual({ memory: '', disk: 'word' })
  },
)

test('a saved memory that is not there any more fails the wake: no desktop that slept boots from its disk unasked', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('hibernated')
  rmSync(join(stack.host.folder, 'memory', id), { recursive: true })
  expect(await refusedWake(stack, id)).toMatch(/^the saved memory is missing on the host.*discard_memory/i)
  expect((await stack.see(id)).state).toBe('hibernated')
  expect((await stack.ask(id, 'wake', { discard_memory: true })).result?.resumed_from).toBe('disk')
})

test('a saved memory that is whole is given up only when told to', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  await stack.remember(id, 'word')
  await stack.ask(id, 'hibernate')
  expect((await stack.ask(id, 'wake', { discard_memory: true })).result?.resumed_from).toBe('disk')
  expect(await stack.recall(id)).toEqual({ memory: '', disk: 'word' })
})

test('a host that has nothing of a desktop any more fails its hibernation, and the state says so', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  const release = stack.host.driver.faults.hang('save')
  const operation = await stack.begin(id, 'hibernate')
  stack.host.driver.die(id)
  release()
  const failed = await stack.settled(operation.id)
  expect(failed.state).toBe('failed')
  expect((await stack.becomes(id, 'stopped')).generation).toBe(1)
  expect(await stack.held(id)).toBe(0)
  expect((await stack.ask(id, 'wake')).result?.resumed_from).toBe('disk')
})
