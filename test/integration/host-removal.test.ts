// Guarantee: a host that an operator removes is gone at once and for good, and everybody learns the truth about what was
// on it; no more is lost than was agreed to.
import type { DesktopState } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'

async function operatorOf(stack: Stack) {
  const key = await stack.replica.parts.principals.createOperatorKey('ops')
  const remove = (host: string, yes_lose: number) =>
    stack.api('POST', `/admin/v1/hosts/${host}/removal`, { key, body: { yes_lose } })
  const preview = async (host: string) => (await stack.api('GET', `/admin/v1/hosts/${host}/removal`, { key })).json
  const listed = async (id: string) =>
    (await stack.api('GET', '/admin/v1/hosts', { key })).json.hosts.find((host: { id: string }) => host.id === id)
  return { key, remove, preview, listed }
}

test('a removed host is cut off everywhere, its desktops fail or are free again, and its name may be used again', async () => {
  await using stack = await Stack.start({ replicas: 2 })
  const { key, remove, preview, listed } = await operatorOf(stack)
  const { host } = stack
  const lost = [await stack.desktop('awake'), await stack.desktop('hibernated'), await stack.desktop('stopped')]
  const [never, first, again, leaving, gone] = [
    await stack.desktop(),
    await stack.desktop(),
    await stack.desktop('stopped'),
    await stack.desktop('awake'),
    await stack.desktop('destroyed'),
  ]
  const releases = (['startCold', 'kill'] as const).map((operation) => host.driver.faults.hang(operation))
  const underWay = {
    first: await stack.begin(first.id, 'wake'),
    again: await stack.begin(again.id, 'wake'),
    leaving: await stack.begin(leaving.id, 'destroy'),
  }
  for (const { id } of [first, again, leaving])
    await waitFor('the host to be asked', async () => (await host.commandsOf(id)).length > 0)

  const doomed = [...lost, again].map(({ id }) => id)
  expect(await preview(host.name)).toMatchObject({ host_id: host.id, removed_at: null, lost: doomed.length })
  const tooMany = await remove(host.name, doomed.length - 1)
  expect([tooMany.status, tooMany.json.code]).toEqual([409, 'would_lose'])
  expect(tooMany.json.detail).toContain(`the only disk of ${doomed.length} desktops`)
  expect(await listed(host.id)).toMatchObject({ state: 'active', linked: true })

  // Far beyond the test's own time: only the removal ends them.
  const awaited = stack.replica.parts.channels.expect(host.id, 600_000)
  const dialled = stack.replica.parts.channels.expect(host.id, 600_000)
  const socket = new WebSocket(`${stack.url.replace(/^http/, 'ws')}/agent/v1/channels/${dialled.token}`)
  const channel = await dialled.channel
  channel.on('error', () => undefined)
  await stack.database.rows(
    `insert into deferred_commands (desktop_id, host_id, command, generation, turn, operation_id, attempts, last_tried_at)
     values ('${gone.id}', '${host.id}', 'desktop.ensureDestroyed', 1, 1, '${gone.id}', 9, now())`,
  )
  const removed = await remove(host.name, doomed.length)
  expect([removed.status, removed.json.lost]).toEqual([200, doomed.length])
  expect(removed.json.desktops.map(({ id }: { id: string }) => id).sort()).toEqual(doomed.toSorted())
  expect(await listed(host.id)).toMatchObject({ state: 'removed', linked: false, desktops: 0 })
  await expect(awaited.channel).rejects.toMatchObject({ code: 'host_unreachable' })
  expect(channel.destroyed).toBe(true)
  socket.terminate()
  await stack.unlinked(host)
  await waitFor('the host to be told', () =>
    stack.chronicle
      .find(/^the control plane was not reached$/)
      .some(({ why }) => /this host was removed/.test(String(why))),
  )

  for (const id of doomed) {
    const failed = await stack.see(id)
    expect(failed).toMatchObject({
      state: 'failed',
      failure: expect.stringMatching(/removed for good.*destroy the desktop/),
    })
    expect((await stack.api('POST', `/v1/desktops/${id}/wake`)).json).toMatchObject({
      status: 409,
      code: 'wrong_state',
      detail: `the desktop is failed: ${failed.failure}`,
    })
    expect((await stack.exec(id, 'true')).json).toMatchObject({
      status: 409,
      code: 'not_awake',
      detail: `the desktop is failed: ${failed.failure}`,
    })
  }
  expect(await stack.settled(underWay.again.id)).toMatchObject({
    state: 'failed',
    error: expect.stringMatching(/data is lost/),
  })
  expect(await stack.settled(underWay.first.id)).toMatchObject({ state: 'failed' })
  expect(await stack.settled(underWay.leaving.id)).toMatchObject({
    state: 'succeeded',
    result: { cleanup: 'deferred' },
  })
  expect(await stack.see(first.id)).toMatchObject({ state: 'created', host_id: null })
  expect((await stack.see(never.id)).failure).toBeNull()
  expect((await stack.see(gone.id)).state).toBe<DesktopState>('destroyed')
  for (const table of ['reservations', 'deferred_commands', `usage_intervals where upper_inf(period)`])
    expect([table, await stack.database.rows(`select 1 from ${table}`)]).toEqual([table, []])
  expect(
    await stack.database.rows('select 1 from generations where started_at is not null and ended_at is null'),
  ).toEqual([])

  expect((await stack.ask(doomed[0]!, 'destroy')).result).toMatchObject({ cleanup: 'deferred' })
  expect(await stack.see(doomed[0]!)).toMatchObject({ state: 'destroyed', failure: null })
  const { token } = await stack.replica.parts.hosts.invite(host.name)
  stack.secrets.learn('the invitation', token)
  const x = Buffer.alloc(32, 7).toString('base64url')
  const body = { token, name: host.name, public_key: { kty: 'OKP', crv: 'Ed25519', x } }
  const { host_id } = (await stack.api('POST', '/agent/v1/enrol', { key: null, body })).json
  expect(await preview(host.name)).toMatchObject({ host_id, removed_at: null, lost: 0 })
  expect((await remove(host.id.toUpperCase(), 0)).json).toMatchObject({
    host_id: host.id,
    lost: 0,
    removed_before: true,
  })
  const audit = (await stack.api('GET', `/admin/v1/audit?subject=${host.id}`, { key })).json.entries
  expect(audit).toMatchObject([{ action: 'host.remove', details: { name: host.name, lost: doomed.length } }])
  await stack.addHost()
  expect((await stack.ask(first.id, 'wake')).state).toBe('succeeded')
  for (const release of releases) release()
})

test('what is placed on a host at the moment of its removal is not left there', async () => {
  await using stack = await Stack.start()
  const { remove } = await operatorOf(stack)
  const ids = await Promise.all(Array.from({ length: 12 }, async () => (await stack.desktop()).id))
  const wakes = ids.map((id) => stack.api('POST', `/v1/desktops/${id}/wake?wait=true`))
  // Some are placed, some are not yet.
  await waitFor('a first placement', async () => (await stack.database.rows('select 1 from reservations')).length > 0)
  expect((await remove(stack.host.id, 12)).status).toBe(200)
  await Promise.all(wakes)
  await stack.settle()
  for (const id of ids) {
    const { state, host_id } = await stack.see(id)
    expect(state === 'failed' || (state === 'created' && host_id === null), `${state} on ${host_id}`).toBe(true)
  }
  expect(await stack.database.rows('select 1 from reservations')).toEqual([])
})

test('a host that nobody knows is 404, a name of two is 409, and only an operator may remove one', async () => {
  await using stack = await Stack.start()
  const { remove, preview } = await operatorOf(stack)
  expect((await remove('nobody', 0)).json).toMatchObject({
    status: 404,
    detail: expect.stringContaining('no such host'),
  })
  expect((await remove(stack.host.name, -1)).json).toMatchObject({ status: 400, field: 'yes_lose' })
  await stack.addHost()
  await stack.database.rows(`update hosts set name = 'twin'`)
  expect(await preview('twin')).toMatchObject({ status: 409, code: 'conflict' })
  expect((await stack.api('POST', `/admin/v1/hosts/twin/removal`, { body: { yes_lose: 0 } })).status).toBe(403)
  expect((await remove(stack.host.id, 0)).status).toBe(200)
})
