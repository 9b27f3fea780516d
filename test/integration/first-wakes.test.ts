// Guarantee: a first wake that fails by its host's own fault goes on at another host, and leaves nothing on the first one; a host
// whose wakes keep failing is avoided for a while, and says so.
import { expect, test } from 'vitest'
import { Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'
import type { Host } from './parts/host.ts'

const agent = { moveAddress: { host: '127.0.0.1', port: 0 } }

/** The first host has the most memory: new desktops go there. */
async function stackOf(hosts: number): Promise<Stack> {
  const stack = await Stack.start({ agent })
  for (let at = 1; at < hosts; at++) await stack.addHost({ memoryMiB: 100_000 - at * 10_000 })
  return stack
}

const findingsOf = async (stack: Stack, operationId: string) => {
  const [row] = await stack.database.rows<{ findings: { tried?: string[] } }>(
    `select findings from operations where id = '${operationId}'`,
  )
  return row!.findings
}

/** With `at`, the wake is placed there first, whatever the others have free. */
async function firstWake(stack: Stack, at?: Host) {
  const others = (cordoned: string) =>
    stack.database.rows(`update hosts set cordoned_at = ${cordoned} where id <> '${at!.id}'`)
  if (at) {
    await others('now()')
    stack.failpoints.set('wake.place.after', async () => void (await others('null')))
  }
  const { id } = await stack.desktop()
  const { id: operationId } = await stack.begin(id, 'wake')
  const settled = await stack.settled(operationId)
  stack.failpoints.set('wake.place.after', undefined)
  return { ...settled, desktopId: id, operationId }
}

/** Waits until no host owes a removal. */
async function removed(stack: Stack): Promise<void> {
  await stack.replica.parts.recovery.sendDeferred()
  await waitFor('the removals', async () => {
    const left = await stack.database.rows('select 1 from deferred_commands')
    return left.length === 0
  })
}

const listed = async (stack: Stack, id: string) =>
  (await stack.replica.parts.hosts.list()).find((host) => host.id === id)

test.each([
  ['its disk cannot be made', 'makeDisk', 'host_disk_full'],
  ['it cannot be booted', 'startCold', 'hypervisor_failed'],
] as const)(
  'where %s, the desktop wakes on another host, and may come to the first one later',
  async (_, what, code) => {
    await using stack = await stackOf(2)
    const [first, second] = stack.hosts
    first!.driver.faults.failNext(what, 1, code)
    const woken = await firstWake(stack, first)
    expect(woken).toMatchObject({ state: 'succeeded', result: { host_id: second!.id, resumed_from: 'image' } })
    expect(await findingsOf(stack, woken.operationId)).toMatchObject({ tried: [first!.id] })
    await removed(stack)
    expect(await first!.holds(woken.desktopId)).toEqual({ domain: 'absent', disk: false })
    expect(await stack.inventory(first)).toEqual([])
    await stack.remember(woken.desktopId, 'kept')
    await stack.ask(woken.desktopId, 'hibernate')
    await stack.database.rows(`update hosts set cordoned_at = now() where id = '${second!.id}'`)
    expect((await stack.ask(woken.desktopId, 'wake')).result?.host_id).toBe(first!.id)
    expect(await stack.recall(woken.desktopId)).toEqual({ memory: 'kept', disk: 'kept' })
  },
)

test('three hosts are tried, and no more; then the desktop is as it was', async () => {
  await using stack = await stackOf(4)
  for (const { driver } of stack.hosts) driver.faults.failNext('startCold', 1)
  const failed = await firstWake(stack, stack.host)
  expect(failed).toMatchObject({ state: 'failed', error_code: 'hypervisor_failed' })
  const { tried } = await findingsOf(stack, failed.operationId)
  expect(tried).toEqual([stack.host.id, expect.any(String)])
  await removed(stack)
  const left = stack.hosts.filter(({ id }) => tried?.includes(id))
  for (const host of left) expect(await host.holds(failed.desktopId)).toMatchObject({ disk: false })
  expect((await stack.ask(failed.desktopId, 'wake')).result?.resumed_from).toMatch(/image|disk/)
})

test('a guest that never answers is no fault of its host', async () => {
  await using stack = await stackOf(2)
  stack.hosts[0]!.driver.faults.guestsSilent = true
  const failed = await stack.withDeadline(1_500, () => firstWake(stack, stack.host))
  expect(failed).toMatchObject({ state: 'failed' })
  expect(await findingsOf(stack, failed.operationId)).not.toHaveProperty('tried')
})

test('a desktop that has been awake stays on its host, whatever fails there', async () => {
  await using stack = await stackOf(2)
  const { id, host_id } = await stack.desktop('awake')
  await stack.ask(id, 'hibernate')
  stack.hosts[0]!.driver.faults.failNext('restorePaused', 1)
  expect(await stack.settled((await stack.begin(id, 'wake')).id)).toMatchObject({ error_code: 'hypervisor_failed' })
  expect((await stack.see(id)).host_id).toBe(host_id)
  expect((await stack.ask(id, 'wake')).result?.resumed_from).toBe('memory')
})

test('a new leader goes on at the host to which the last one went', async () => {
  await using stack = await stackOf(2)
  const [first, second] = stack.hosts
  first!.driver.faults.failNext('makeDisk', 1)
  const letGo = second!.driver.faults.hang('makeDisk')
  const { id } = await stack.desktop()
  const others = (cordoned: string) =>
    stack.database.rows(`update hosts set cordoned_at = ${cordoned} where id = '${second!.id}'`)
  await others('now()')
  stack.failpoints.set('wake.place.after', async () => void (await others('null')))
  const { id: operationId } = await stack.begin(id, 'wake')
  await waitFor('the desktop to be bound to the other host', async () => (await stack.see(id)).host_id === second!.id)
  await stack.restartControlPlane()
  letGo()
  expect(await stack.settled(operationId)).toMatchObject({ state: 'succeeded', result: { host_id: second!.id } })
  expect(await findingsOf(stack, operationId)).toMatchObject({ tried: [first!.id] })
})

test('a host whose wakes keep failing is quarantined while others can take desktops, until an operator uncordons it', async () => {
  await using stack = await stackOf(2)
  stack.chronicle.foresee(/^the wakes of a host keep failing/)
  const [first, second] = stack.hosts
  first!.driver.faults.failNext('startCold', 3)
  for (let at = 0; at < 3; at++)
    expect(await firstWake(stack, first)).toMatchObject({ result: { host_id: second!.id } })
  expect((await listed(stack, first!.id))?.quarantine).toMatchObject({ reason: expect.stringContaining('startCold') })
  expect(await stack.metrics()).toMatch(/^dormouse_hosts_quarantined\S* 1$/m)

  // Nothing fails there any more, but nobody tries.
  expect((await firstWake(stack)).result?.host_id).toBe(second!.id)
  const key = await stack.replica.parts.principals.createOperatorKey('ops')
  const cordon = (host: string, verb: string) => stack.api('POST', `/admin/v1/hosts/${host}/${verb}`, { key, body: {} })
  await cordon(second!.id, 'cordon')
  expect((await firstWake(stack)).result?.host_id).toBe(first!.id)
  await cordon(second!.id, 'uncordon')
  expect((await cordon(first!.id, 'uncordon')).json.quarantine).toBeNull()
  expect((await firstWake(stack)).result?.host_id).toBe(first!.id)
})
