// Guarantee: what a host cannot do is put off and never forgotten; it keeps no operation running, and delays no other host.
import { createAdminClient } from '@dormouse/client'
import type { DesktopJson } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { House } from '../house.ts'
import { waitFor } from '../wait-for.ts'

/** Writes a command down as put off: by default that the destroyed desktop is to be removed once more. */
async function putOff(
  house: House,
  { id }: DesktopJson,
  hostId: string,
  { command, later } = { command: 'desktop.ensureDestroyed', later: 1 },
): Promise<void> {
  await house.database.rows(
    `insert into deferred_commands (desktop_id, host_id, command, generation, turn, operation_id)
     select d.id, $2, $3, d.generation, d.turn + $4, o.id
       from desktops d join operations o on o.desktop_id = d.id where d.id = $1 order by o.created_at desc limit 1`,
    [id, hostId, command, later],
  )
}

const leftOn = async (house: House, hostId: string): Promise<number> =>
  (await house.database.rows('select 1 from deferred_commands where host_id = $1', [hostId])).length

test('a host that takes a command and never answers delays no other host, now or in the next round', async () => {
  await using house = await House.start({ hosts: 2 })
  const [hanging, working] = house.hosts.map(({ id }) => id) as [string, string]
  const gone = await Promise.all(Array.from({ length: 3 }, () => house.desktop('destroyed')))
  const { recovery } = house.replica.parts
  const release = house.hosts[0]!.driver.faults.hang('removeDisk')
  await putOff(house, gone[0]!, hanging)
  await recovery.sendDeferred()
  await waitFor('the host to hang', () => house.hosts[0]!.driver.faults.counts.removeDisk)
  for (const desktop of gone.slice(1)) {
    await putOff(house, desktop, working)
    await recovery.sendDeferred()
    await waitFor('it to be carried out', async () => (await leftOn(house, working)) === 0)
  }
  expect(await leftOn(house, hanging)).toBe(1)
  release()
  await waitFor('the first to be carried out, too', async () => (await leftOn(house, hanging)) === 0)
})

test('a host that can write nothing keeps no wake running: the undo is put off, shown to operators, and carried out later', async () => {
  await using house = await House.start()
  house.chronicle.foresee(/^a step failed$/, /^a call failed$/)
  const operatorKey = await house.replica.parts.principals.createOperatorKey('ops')
  house.secrets.learn('the operator’s key', operatorKey)
  const admin = createAdminClient({ baseUrl: house.url, operatorKey, retries: 0 })
  const deferred = async () => (await admin.listDeferred()).deferred_commands
  const { id } = await house.desktop('awake')
  await house.remember(id, 'kept')
  await house.ask(id, 'hibernate')
  house.host.failpoints.set('wake.after-resume', () => house.host.failpoints.set('journal.before-write', 'throw'))
  house.failpoints.set('wake.run.after', 'throw')
  const failed = await house.withDeadline(1_500, async () => house.settled((await house.begin(id, 'wake')).id))
  expect(failed).toMatchObject({ state: 'failed', result: null })
  expect(await house.see(id)).toMatchObject({ state: 'hibernated', generation: 2 })
  expect(await house.held(id)).toBe(0)
  await house.replica.parts.recovery.compare(house.host.id)
  const tried = await waitFor('a try', async () => (await deferred()).find(({ attempts }) => attempts > 0))
  expect(tried).toMatchObject({ desktop_id: id, host_id: house.host.id, command: 'desktop.ensureAsleep' })
  expect(tried).toMatchObject({ operation_id: failed.id, last_error: expect.stringMatching(/./) })
  // It runs, unasked: that is no riddle while its undo waits, and nothing is done about it.
  expect(await house.observed(id)).toMatchObject({ domain: 'running', memory: 'spent' })
  house.failpoints.set('wake.run.after', undefined)
  for (const point of ['wake.after-resume', 'journal.before-write']) house.host.failpoints.set(point, undefined)
  await house.replica.parts.recovery.compare(house.host.id)
  await waitFor('the undo to be carried out', async () => (await deferred()).length === 0)
  expect((await house.ask(id, 'wake')).result?.resumed_from).toBe('memory')
  expect(await house.recall(id)).toEqual({ memory: 'kept', disk: 'kept' })
})

test('a hibernation whose outcome cannot be read settles at its deadline, and what the host says later becomes the state', async () => {
  await using house = await House.start()
  house.chronicle.foresee(/^a step failed$/)
  const { id } = await house.desktop('awake')
  house.failpoints.set('hibernate.save.after', 'throw')
  house.failpoints.set('hibernate.save.undo', 'throw')
  const failed = await house.withDeadline(1_500, async () => house.settled((await house.begin(id, 'hibernate')).id))
  expect(failed.state).toBe('failed')
  house.failpoints.set('hibernate.save.undo', undefined)
  await house.replica.parts.recovery.compare(house.host.id)
  await house.becomes(id, 'hibernated')
  expect((await house.ask(id, 'wake')).result?.resumed_from).toBe('memory')
})

test('an old command that was put off ends with its turn: what a later destroy still holds of the host stays held', async () => {
  await using house = await House.start()
  house.chronicle.foresee(/^recovery was interrupted/)
  const desktop = await house.desktop('awake')
  house.host.driver.faults.failNext('kill', 1_000)
  expect((await house.ask(desktop.id, 'destroy')).result).toMatchObject({ cleanup: 'deferred' })
  const held = await house.held(desktop.id)
  expect(held).toBeGreaterThan(0)
  await putOff(house, desktop, house.host.id, { command: 'desktop.ensureAsleep', later: -1 })
  const { recovery } = house.replica.parts
  await recovery.compare(house.host.id)
  expect(await leftOn(house, house.host.id)).toBe(1)
  expect(await house.held(desktop.id)).toBe(held)
  house.host.driver.faults.failNext('kill', 0)
  await recovery.compare(house.host.id)
  await waitFor('the room to be given back', async () => (await house.held(desktop.id)) === undefined)
})
