// Guarantee: a change of tier or disk waits for the next boot. A saved memory is never given up for it, and what a desktop has on
// its host is what is shown, reserved and billed.
import { refuse } from '@dormouse/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'
import { beginMove, moved, movingAgent } from './parts/moved.ts'

let stack: Stack
beforeAll(async () => {
  stack = await Stack.start({ controlPlane: { maxDiskGiB: 100 } })
})
afterAll(() => stack[Symbol.asyncDispose]())

const patch = (of: Stack, id: string, body: object) => of.api('PATCH', `/v1/desktops/${id}`, { body })

async function change(of: Stack, id: string, body: object): Promise<unknown> {
  const { status, json, text } = await patch(of, id, body)
  expect(status, text).toBe(200)
  return json
}

/** What the desktop has on its host, and what is reserved for it there. */
async function has(of: Stack, id: string) {
  const host = await of.hostOf(id)
  const [reserved] = await of.database.rows<{ vcpus: number; memory_mib: number; disk_gib: number }>(
    'select vcpus, memory_mib, disk_gib from reservations where desktop_id = $1',
    [id],
  )
  return { memory: await host.driver.residentMiB(id), disk: await host.driver.diskGiB(id), reserved }
}

const reservedDisk = async (of: Stack, id: string) => {
  const [row] = await of.database.rows<{ gib: number }>(
    'select disk_gib as gib from reservations where desktop_id = $1',
    [id],
  )
  return row?.gib
}

const small = { memory: 512, disk: 10, reserved: { vcpus: 1, memory_mib: 512, disk_gib: 10 } }
const grownLarge = { memory: 4096, disk: 50, reserved: { vcpus: 4, memory_mib: 4096, disk_gib: 50 } }

test('a desktop that was never woken has the new size at once', async () => {
  const { id } = await stack.desktop()
  const changed = await change(stack, id, { tier: 'large', disk_gib: 50 })
  expect(changed).toMatchObject({ tier: 'large', disk_gib: 50, next_tier: null, next_disk_gib: null })
  await stack.ask(id, 'wake')
  expect(await has(stack, id)).toEqual(grownLarge)
})

test('a wake from memory stays in its tier and says so; one that discards it boots into the next', async () => {
  const { id } = await stack.desktop('awake')
  await stack.remember(id, 'kept')
  const asked = await change(stack, id, { tier: 'large', disk_gib: 50 })
  const waits = { tier: 'small', disk_gib: 10, next_tier: 'large', next_disk_gib: 50 }
  const done = { tier: 'large', disk_gib: 50, next_tier: null, next_disk_gib: null }
  expect(asked).toMatchObject({ state: 'awake', ...waits })
  await stack.ask(id, 'hibernate')
  expect((await stack.ask(id, 'wake')).result).toMatchObject({
    resumed_from: 'memory',
    ...waits,
  })
  expect(await stack.recall(id)).toEqual({ memory: 'kept', disk: 'kept' })
  expect(await stack.see(id)).toMatchObject(waits)
  expect(await has(stack, id)).toEqual(small)
  await stack.ask(id, 'hibernate')
  const booted = await stack.ask(id, 'wake', { discard_memory: true })
  expect(booted.result).toMatchObject({ resumed_from: 'disk', ...done })
  expect(await stack.see(id)).toMatchObject(done)
  expect((await stack.recall(id)).disk).toBe('kept')
  expect(await has(stack, id)).toEqual(grownLarge)
  await stack.ask(id, 'hibernate')
  const { result } = await stack.ask(id, 'wake')
  expect(Object.keys(done).filter((name) => name in result!)).toEqual([])
})

test('a stopped desktop boots into the next tier, which is billed from then on', async () => {
  const { id } = await stack.desktop('stopped')
  await change(stack, id, { tier: 'default' })
  expect((await stack.ask(id, 'wake')).result).toMatchObject({ tier: 'default', next_tier: null })
  await stack.ask(id, 'hibernate')
  const billed = await stack.database.rows<{ tier: string; kind: string }>(
    'select tier, kind from usage_intervals where desktop_id = $1 order by period',
    [id],
  )
  expect(billed).toEqual([
    { tier: 'small', kind: 'awake' },
    { tier: 'default', kind: 'awake' },
    { tier: 'default', kind: 'hibernated' },
  ])
})

test('what was requested during a boot waits for the next one, also the tier before', async () => {
  const { id } = await stack.desktop('stopped')
  await change(stack, id, { tier: 'default', disk_gib: 20 })
  const [reached, go] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  stack.failpoints.set('wake.run.after', () => {
    reached.resolve()
    return go.promise
  })
  const wake = await stack.begin(id, 'wake')
  await reached.promise
  stack.failpoints.set('wake.run.after', undefined)
  await change(stack, id, { tier: 'small', disk_gib: 30 })
  go.resolve()
  expect(await stack.settled(wake.id)).toMatchObject({ state: 'succeeded', result: { tier: 'default' } })
  const later = { tier: 'default', disk_gib: 20, next_tier: 'small', next_disk_gib: 30 }
  expect(await stack.see(id)).toMatchObject(later)
})

test('the present tier takes a change back; a disk only grows, within a limit', async () => {
  const { id } = await stack.desktop('awake')
  await change(stack, id, { tier: 'large', disk_gib: 20 })
  expect(await change(stack, id, { tier: 'small' })).toMatchObject({ next_tier: null, next_disk_gib: 20 })
  for (const disk_gib of [19, 0, 101, 1.5]) {
    expect(await patch(stack, id, { disk_gib })).toMatchObject({ status: 400, json: { field: 'disk_gib' } })
  }
  expect(await patch(stack, id, { tier: 'huge' })).toMatchObject({ status: 400, json: { field: 'tier' } })
  expect(await change(stack, id, { disk_gib: 20 })).toMatchObject({ disk_gib: 10, next_disk_gib: 20 })
})

test('a boot that fails keeps the memory, its tier and the change; a disk that has grown stays so', async () => {
  const { id } = await stack.desktop('awake')
  await stack.remember(id, 'kept')
  await stack.ask(id, 'hibernate')
  await change(stack, id, { tier: 'default', disk_gib: 15 })
  const { driver, failpoints } = await stack.hostOf(id)
  const before = { state: 'hibernated', tier: 'small', next_tier: 'default' }
  driver.faults.failNext('growDisk')
  const refused = await stack.settled((await stack.begin(id, 'wake', { discard_memory: true })).id)
  expect(refused).toMatchObject({ state: 'failed', error_code: 'disk_not_grown' })
  expect(refused.error).toContain('its saved memory and its disk are kept')
  expect(await stack.see(id)).toMatchObject({ ...before, disk_gib: 10, next_disk_gib: 15 })
  expect(await reservedDisk(stack, id)).toBe(10)
  failpoints.set('wake.after-grow', () => refuse('hypervisor_failed', 'it does not start'))
  await expect(stack.ask(id, 'wake', { discard_memory: true })).rejects.toThrow('409')
  failpoints.set('wake.after-grow', undefined)
  expect(await stack.see(id)).toMatchObject({ ...before, disk_gib: 15, next_disk_gib: null })
  expect(await reservedDisk(stack, id)).toBe(15)
  expect((await stack.ask(id, 'wake')).result).toMatchObject({ resumed_from: 'memory', next_tier: 'default' })
  expect(await stack.recall(id)).toEqual({ memory: 'kept', disk: 'kept' })
})

test('a boot that was undone by a save keeps the tier of its guest', async () => {
  const { id } = await stack.desktop('stopped')
  await change(stack, id, { tier: 'default', disk_gib: 15 })
  stack.failingAt('wake', 'run')
  await expect(stack.ask(id, 'wake')).rejects.toThrow('409')
  stack.failpoints.set('wake.run.after', undefined)
  const shown = await stack.see(id)
  expect(shown).toMatchObject({ state: 'hibernated', tier: 'default', next_tier: null, disk_gib: 15 })
  expect((await stack.ask(id, 'wake')).result).toMatchObject({ resumed_from: 'memory' })
  expect(await has(stack, id)).toMatchObject({ memory: 2048, disk: 15, reserved: { memory_mib: 2048, disk_gib: 15 } })
})

test('a host that falls silent over it reports later what it has given the desktop', async () => {
  await using flaky = await Stack.start({ hosts: 2, agent: movingAgent })
  flaky.chronicle.foresee(/^a step failed$/, /^a call failed$/)
  const { id } = await flaky.desktop('awake')
  await flaky.remember(id, 'kept')
  await flaky.ask(id, 'hibernate')
  await change(flaky, id, { tier: 'default', disk_gib: 15 })
  const host = await flaky.hostOf(id)
  host.failpoints.set('wake.after-resume', () => host.failpoints.set('journal.before-write', 'throw'))
  flaky.failpoints.set('wake.run.after', 'throw')
  const wake = async () => flaky.settled((await flaky.begin(id, 'wake', { discard_memory: true })).id)
  expect(await flaky.withDeadline(1_500, wake)).toMatchObject({ state: 'failed' })
  expect(await flaky.see(id)).toMatchObject({ tier: 'small', next_tier: 'default', disk_gib: 10, next_disk_gib: 15 })
  flaky.failpoints.set('wake.run.after', undefined)
  for (const point of ['wake.after-resume', 'journal.before-write']) host.failpoints.set(point, undefined)
  const { recovery } = flaky.replica.parts
  await waitFor('the undo to be carried out', async () => {
    await flaky.database.rows('update deferred_commands set last_tried_at = null')
    await recovery.compare(host.id)
    return (await flaky.database.rows('select 1 from deferred_commands')).length === 0
  })
  const now = { state: 'hibernated', tier: 'default', next_tier: null, disk_gib: 15, next_disk_gib: null }
  expect(await flaky.see(id)).toMatchObject(now)
  expect(await moved(flaky, id)).toMatchObject({ state: 'succeeded' })
  expect((await flaky.ask(id, 'wake')).result).toMatchObject({ resumed_from: 'memory' })
  expect((await flaky.recall(id)).disk).toBe('kept')
  expect(await has(flaky, id)).toMatchObject({ memory: 2048, disk: 15, reserved: { memory_mib: 2048, disk_gib: 15 } })
})

test('it moves and wakes from a warm copy as it is, before and after a change', async () => {
  await using two = await Stack.start({ hosts: 2, agent: { ...movingAgent, warmPercent: 25 } })
  const { id } = await two.desktop('awake')
  await two.remember(id, 'kept')
  await change(two, id, { tier: 'large', disk_gib: 50 })
  const goesOn = async () => {
    expect(await moved(two, id)).toMatchObject({ state: 'succeeded', result: { moved: 'live' } })
    await two.ask(id, 'hibernate')
    expect((await two.ask(id, 'wake')).result).toMatchObject({ resumed_from: 'memory', path: 'warm' })
    await two.ask(id, 'hibernate')
    expect(await moved(two, id)).toMatchObject({ state: 'succeeded', result: { moved: 'asleep' } })
    expect((await two.ask(id, 'wake')).result).toMatchObject({ resumed_from: 'memory', path: 'restore' })
    return has(two, id)
  }
  expect(await goesOn()).toEqual(small)
  expect(await two.see(id)).toMatchObject({ tier: 'small', next_tier: 'large', disk_gib: 10, next_disk_gib: 50 })
  await two.ask(id, 'hibernate')
  await two.ask(id, 'wake', { discard_memory: true })
  expect(await goesOn()).toEqual(grownLarge)
  expect((await two.recall(id)).disk).toBe('kept')
})

test('a wake that waits behind a move boots into what was requested meanwhile', async () => {
  await using two = await Stack.start({ hosts: 2, agent: movingAgent })
  const { id } = await two.desktop('stopped')
  const [reached, go] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  two.failpoints.set('move.send.after', () => {
    reached.resolve()
    return go.promise
  })
  using _ = { [Symbol.dispose]: () => go.resolve() }
  await beginMove(two, id)
  await reached.promise
  const wake = await two.begin(id, 'wake')
  expect(wake.progress).toMatchObject({ phase: 'waiting' })
  await change(two, id, { tier: 'large', disk_gib: 50 })
  go.resolve()
  const result = { resumed_from: 'disk', tier: 'large', next_tier: null }
  expect(await two.settled(wake.id)).toMatchObject({ state: 'succeeded', result })
  expect(await has(two, id)).toEqual(grownLarge)
})

test('a host without capacity for the new size refuses the boot, loses nothing, and the desktop boots elsewhere', async () => {
  await using two = await Stack.start({ agent: { ...movingAgent, memoryMiB: 1_000, diskGiB: 100 } })
  const { id } = await two.desktop('awake')
  await two.ask(id, 'hibernate')
  await change(two, id, { tier: 'default' })
  await expect(two.ask(id, 'wake', { discard_memory: true })).rejects.toThrow('no_room')
  await change(two, id, { tier: 'small', disk_gib: 200 })
  await expect(two.ask(id, 'wake', { discard_memory: true })).rejects.toThrow('no_room')
  expect((await two.ask(id, 'wake')).result).toMatchObject({ resumed_from: 'memory' })
  await two.ask(id, 'hibernate')
  await change(two, id, { tier: 'default' })
  const roomy = await two.addHost({ memoryMiB: 8_000, diskGiB: 1_000 })
  const { result } = await two.ask(id, 'wake', { discard_memory: true })
  expect(result).toMatchObject({ resumed_from: 'disk', tier: 'default', host_id: roomy.id })
  expect(await has(two, id)).toMatchObject({ memory: 2048, disk: 200, reserved: { memory_mib: 2048, disk_gib: 200 } })
})
