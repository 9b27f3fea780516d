// Guarantee: a desktop has the shares of its tier on whatever host it runs, and a change of the setting counts from its next wake
// on, also if that is from its memory.
import type { Shares } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'
import { moved, movingAgent, other } from './parts/moved.ts'

const few: Shares = {
  cpu_weight: 50,
  disk_iops: 500,
  disk_mib_per_second: 8,
  network_mbit_per_second: 25,
  packets_per_second: 5_000,
  connections: null,
}
const more: Shares = { ...few, disk_iops: 9_000 }

/** Of the tier small, as customers see them. */
const shown = async (stack: Stack) => (await stack.api('GET', '/v1/tiers')).json.tiers[0].shares
/** On the host where the desktop is. */
const given = async (stack: Stack, id: string) => (await stack.hostOf(id)).driver.sharesOf(id)

test('from its next wake on, however it comes to run', async () => {
  await using stack = await Stack.start({ hosts: 2, controlPlane: { tierSmallShares: few }, agent: movingAgent })
  const { id } = await stack.desktop('awake')
  expect([await shown(stack), await given(stack, id)]).toEqual([few, few])
  await stack.restartControlPlane({ tierSmallShares: more })
  expect([await shown(stack), await given(stack, id)]).toEqual([more, few])
  await stack.ask(id, 'hibernate')
  await stack.ask(id, 'wake')
  expect(await given(stack, id)).toEqual(more)
  const from = await stack.hostOf(id)
  expect(await moved(stack, id)).toMatchObject({ state: 'succeeded', result: { host_id: other(stack, from).id } })
  expect(await given(stack, id)).toEqual(more)
})

test('a wake that release 0.1 has accepted limits nothing', async () => {
  await using stack = await Stack.start({ controlPlane: { tierSmallShares: few } })
  const { id } = await stack.desktop('hibernated')
  const held = Promise.withResolvers<void>()
  stack.failpoints.set('wake.run.before', () => held.promise)
  const { id: operationId } = await stack.begin(id, 'wake')
  await stack.database.rows(`update operations set input = input - 'tier' where id = $1`, [operationId])
  const { leadership } = stack.replica.parts
  const { term } = leadership
  const ended = stack.endTerm()
  // Only then is the operation read again.
  await waitFor('the end of the term', () => leadership.term !== term)
  held.resolve()
  await ended
  expect(await stack.settled(operationId)).toMatchObject({ state: 'succeeded' })
  expect(await given(stack, id)).toBeUndefined()
})
