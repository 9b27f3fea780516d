// Guarantee: what a host cannot do is put off and never forgotten; it keeps no operation running, and delays no other host.
import { createAdminClient } from '@dormouse/client'
import type { DesktopJson } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'

/** Writes a command down as put off: by default that the destroyed desktop is to be removed once more. */
async function putOff(
  stack: Stack,
  { id }: DesktopJson,
  hostId: string,
  { command, later } = { command: 'desktop.ensureDestroyed', later: 1 },
): Promise<void> {
  await stack.database.rows(
    `insert into deferred_commands (desktop_id, host_id, command, generation, turn, operation_id)
     select d.id, $2, $3, d.generation, d.turn + $4, o.id
       from desktops d join operations o on o.desktop_id = d.id where d.id = $1 order by o.created_at desc limit 1`,
    [id, hostId, command, later],
  )
}

const leftOn = async (stack: Stack, hostId: string): Promise<number> =>
  (await stack.database.rows('select 1 from deferred_commands where host_id = $1', [hostId])).length

test('a host that takes a command and never answers delays no other host, now or in the next round', async () => {
  await using stack = await Stack.start({ hosts: 2 })
  const [hanging, working] = stack.hosts.map(({ id }) => id) as [string, string]
  const gone = await Promise.all(Array.from({ length: 3 }, () => stack.desktop('destroyed')))
  const { recovery } = stack.replica.parts
  const release = stack.hosts[0]!.driver.faults.hang('removeDisk')
  await putOff(stack, gone[0]!, hanging)
  await recovery.sendDeferred()
  await waitFor('the host to hang', () => stack.hosts[0]!.driver.faults.counts.removeDisk)
  for (const desktop of gone.slice(1)) {
    await putOff(stack, desktop, working)
    await recovery.sendDeferred()
    await waitFor('it to be carried out', async () => (await leftOn(stack, working)) === 0)
  }
  expect(await leftOn(stack, hanging)).toBe(1)
  release()
  await waitFor('the first to be carried out, too', async () => (await leftOn(stack, hanging)) === 0)
})

test('a host that can write nothing keeps no wake running: the undo is put off, shown to operators, and carried out later', async () => {
  await using stack = await Stack.start()
  stack.chronicle.foresee(/^a step failed$/, /^a call failed$/)
  const operatorKey = await stack.replica.parts.principals.createOperatorKey('ops')
  stack.secrets.learn('the operator’s key', operatorKey)
  const admin = createAdminClient({ baseUrl: stack.url, operatorKey, retries: 0 })
  const deferred = async () => (await admin.listDeferred()).deferred_commands
  const { id } = await stack.desktop('awake')
  await stack.remember(id, 'kept')
  await stack.ask(id, 'hibernate')
  stack.host.failpoints.set('wake.after-resume', () => stack.host.failpoints.set('journal.before-write', 'throw'))
  stack.failpoints.set('wake.run.after', 'throw')
  const failed = await stack.withDeadline(1_500, async () => stack.settled((await stack.begin(id, 'wake')).id))
  expect(failed).toMatchObject({ state: 'failed', result: null })
  expect(await stack.see(id)).toMatchObject({ state: 'hibernated', generation: 2 })
  expect(await stack.held(id)).toBe(0)
  await stack.replica.parts.recovery.compare(stack.host.id)
  const tried = await waitFor('a try', async () => (await deferred()).find(({ attempts }) => attempts > 0))
  expect(tried).toMatchObject({ desktop_id: id, host_id: stack.host.id, command: 'desktop.ensureAsleep' })
  expect(tried).toMatchObject({ operation_id: failed.id, last_error: expect.stringMatching(/./) })
  // It runs, unasked: that is no riddle while its undo waits, and nothing is done about it.
  expect(await stack.observed(id)).toMatchObject({ domain: 'running', memory: 'spent' })
  stack.failpoints.set('wake.run.after', undefined)
  for (const point of ['wake.after-resume', 'journal.before-write']) stack.host.failpoints.set(point, undefined)
  await stack.replica.parts.recovery.compare(stack.host.id)
  await waitFor('the undo to be carried out', async () => (await deferred()).length === 0)
  expect((await stack.ask(id, 'wake')).result?.resumed_from).toBe('memory')
  expect(await stack.recall(id)).toEqual({ memory: 'kept', disk: 'kept' })
})

test('a hibernation whose outcome cannot be read settles at its deadline, and what the host says later becomes the state', async () => {
  await using stack = await Stack.start()
  stack.chronicle.foresee(/^a step failed$/)
  const { id } = await stack.desktop('awake')
  stack.failpoints.set('hibernate.save.after', 'throw')
  stack.failpoints.set('hibernate.save.undo', 'throw')
  const failed = await stack.withDeadline(1_500, async () => stack.settled((await stack.begin(id, 'hibernate')).id))
  expect(failed.state).toBe('failed')
  stack.failpoints.set('hibernate.save.undo', undefined)
  await stack.replica.parts.recovery.compare(stack.host.id)
  await stack.becomes(id, 'hibernated')
  expect((await stack.ask(id, 'wake')).result?.resumed_from).toBe('memory')
})

test('an old command that was put off ends with its turn: what a later destroy still holds of the host stays held', async () => {
  await using stack = await Stack.start()
  stack.chronicle.foresee(/^recovery was interrupted/)
  const desktop = await stack.desktop('awake')
  stack.host.driver.faults.failNext('kill', 1_000)
  expect((await stack.ask(desktop.id, 'destroy')).result).toMatchObject({ cleanup: 'deferred' })
  const held = await stack.held(desktop.id)
  expect(held).toBeGreaterThan(0)
  await putOff(stack, desktop, stack.host.id, { command: 'desktop.ensureAsleep', later: -1 })
  const { recovery } = stack.replica.parts
  await recovery.compare(stack.host.id)
  expect(await leftOn(stack, stack.host.id)).toBe(1)
  expect(await stack.held(desktop.id)).toBe(held)
  stack.host.driver.faults.failNext('kill', 0)
  await recovery.compare(stack.host.id)
  await waitFor('the module to be given back', async () => (await stack.held(desktop.id)) === undefined)
})
