// Guarantee: a host that an operator declares lost costs nothing after its last proof of life, and if it comes back it runs
// nothing and keeps everything that was not destroyed, until an operator takes it back or removes it.
import { newId } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'

async function operatorOf(stack: Stack) {
  const key = await stack.replica.parts.principals.createOperatorKey('ops')
  const post = (action: string, body: object = {}) =>
    stack.api('POST', `/admin/v1/hosts/${stack.host.id}/${action}`, { key, body })
  const stateOf = async () =>
    (await stack.api('GET', '/admin/v1/hosts', { key })).json.hosts.find((h: { id: string }) => h.id === stack.host.id)
      .state
  return { post, stateOf }
}

/** The host dies; its last heartbeat was a minute ago, and its desktops have been there for ten. */
async function die(stack: Stack): Promise<void> {
  await stack.killAgent()
  await stack.database.rows('delete from usage_intervals where not upper_inf(period)')
  await stack.database.rows(
    `update usage_intervals set period = tstzrange(now() - interval '10 minutes', null),
       alive_until = now() - interval '2 minutes' where upper_inf(period)`,
  )
  await stack.database.rows(`update hosts set last_heartbeat_at = now() - interval '1 minute'`)
}

const billedSecs = async (stack: Stack, id: string) => {
  const [last] = await stack.database.rows<{ secs: number | null }>(
    `select extract(epoch from upper(period) - lower(period))::float as secs from usage_intervals
     where desktop_id = $1 order by id desc limit 1`,
    [id],
  )
  return last!.secs
}

test('a lost host costs nothing more, runs nothing when it is back, and is whole after its return', async () => {
  await using stack = await Stack.start()
  const { post, stateOf } = await operatorOf(stack)
  const { host } = stack
  const [awake, asleep, stopped, doomed, never] = [
    await stack.desktop('awake'),
    await stack.desktop('hibernated'),
    await stack.desktop('stopped'),
    await stack.desktop('hibernated'),
    await stack.desktop(),
  ]
  await stack.remember(awake.id, 'kept')
  expect((await post('loss', { yes_lose: 4 })).json).toMatchObject({
    status: 409,
    code: 'conflict',
    detail: expect.stringMatching(/sent a heartbeat in the last 15 s/),
  })

  await die(stack)
  expect((await post('loss', { yes_lose: 3 })).json).toMatchObject({ status: 409, code: 'would_lose' })
  const lost = await post('loss', { yes_lose: 4 })
  const ids = [awake, asleep, stopped, doomed].map(({ id }) => id)
  expect([lost.status, lost.json.removed_at, lost.json.desktops.map(({ id }: { id: string }) => id)]).toEqual([
    200,
    null,
    ids,
  ])
  expect((await post('loss', { yes_lose: 0 })).json).toMatchObject({ removed_before: true, lost: 0 })
  expect(await stateOf()).toBe('lost')
  for (const id of ids)
    expect(await stack.see(id)).toMatchObject({ state: 'failed', failure: expect.stringMatching(/host is lost/) })
  // The last heartbeat that listed it, and the last heartbeat of its host.
  expect([await billedSecs(stack, awake.id), await billedSecs(stack, asleep.id)]).toEqual([
    expect.closeTo(480, -1),
    expect.closeTo(540, -1),
  ])
  expect((await stack.ask(doomed.id, 'destroy')).result).toMatchObject({ cleanup: 'deferred' })

  stack.chronicle.foresee(/failed because its host was lost/)
  await stack.restartAgent()
  await waitFor('what was destroyed to be removed', async () => !(await host.holds(doomed.id)).disk)
  await waitFor('the guest to be suspended', async () => (await host.holds(awake.id)).domain === 'paused')
  const fence = { desktopId: never.id, epoch: 1, generation: 1, turn: 1, operationId: newId(), deadlineMs: 1_000 }
  const order = stack.replica.parts.links.command(host.id, 'desktop.ensureAsleep', { fence })
  await expect(order).rejects.toMatchObject({ code: 'host_unreachable' })
  expect((await stack.api('POST', `/v1/desktops/${never.id}/wake?wait=true`)).json).toMatchObject({
    code: 'operation_failed',
    cause_code: 'no_host',
  })
  expect(await stateOf()).toBe('lost')

  const returned = await post('return')
  expect([returned.status, returned.json.desktops.length]).toEqual([200, 3])
  await stack.replica.parts.recovery.sendDeferred()
  await stack.becomes(awake.id, 'hibernated')
  expect(await stack.becomes(asleep.id, 'hibernated')).toMatchObject({ failure: null })
  await stack.becomes(stopped.id, 'stopped')
  await stack.ask(awake.id, 'wake')
  expect(await stack.recall(awake.id)).toEqual({ memory: 'kept', disk: 'kept' })
  await stack.ask(stopped.id, 'wake')
  await stack.ask(never.id, 'wake')
  expect((await stack.see(doomed.id)).state).toBe('destroyed')
  expect((await post('return')).json.desktops).toEqual([])
})

test('a lost host that is removed never comes back, and what failed with it says so', async () => {
  await using stack = await Stack.start()
  const { post, stateOf } = await operatorOf(stack)
  const { id } = await stack.desktop('hibernated')
  await die(stack)
  expect((await post('loss', { yes_lose: 1 })).status).toBe(200)
  expect((await post('return')).json).toMatchObject({ status: 409, code: 'conflict' })
  expect((await post('removal', { yes_lose: 0 })).json).toMatchObject({ removed_before: false, lost: 0 })
  expect([await stateOf(), (await stack.see(id)).failure]).toEqual([
    'removed',
    expect.stringMatching(/removed for good/),
  ])
  expect((await post('loss', { yes_lose: 0 })).json).toMatchObject({ status: 409, code: 'conflict' })
})
