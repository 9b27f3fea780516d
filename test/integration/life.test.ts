import { expect, test } from 'vitest'
import { Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'
import { inShort } from './parts/host.ts'

test('a desktop is created, wakes from its image, hibernates, wakes from memory and is destroyed, and says so at each step', async () => {
  await using stack = await Stack.start()
  const created = await stack.desktop('created')
  expect(created).toMatchObject({ state: 'created', generation: 0, current_generation_id: null, host_id: null })
  expect(created).toMatchObject({ org_id: stack.org.id, tier: 'small', billing_mode: 'hourly', image_version: 'mini' })

  const first = await stack.ask(created.id, 'wake')
  expect(first).toMatchObject({ kind: 'wake', state: 'succeeded', error: null, desktop_id: created.id })
  expect(first.result).toMatchObject({
    desktop_state: 'awake',
    generation: 1,
    host_id: stack.host.id,
    resumed_from: 'image',
  })
  const awake = await stack.see(created.id)
  expect(awake).toMatchObject({ state: 'awake', generation: 1, host_id: stack.host.id })
  expect(awake.current_generation_id).toBe(first.result?.generation_id)
  await stack.remember(created.id, 'dormouse')

  const slept = await stack.ask(created.id, 'hibernate')
  expect(slept.result).toMatchObject({ desktop_state: 'hibernated', generation: 1 })
  expect(slept.result?.duration_ms).toBeGreaterThanOrEqual(0)
  expect(await stack.see(created.id)).toMatchObject({ state: 'hibernated', generation: 1, host_id: stack.host.id })
  expect(await stack.held(created.id)).toBe(0)
  expect(inShort(await stack.observed(created.id))).toBe('saved')

  const second = await stack.ask(created.id, 'wake')
  expect(second.result).toMatchObject({ generation: 2, resumed_from: 'memory' })
  expect(second.result?.generation_id).not.toBe(first.result?.generation_id)
  expect(await stack.recall(created.id)).toEqual({ memory: 'dormouse', disk: 'dormouse' })

  const gone = await stack.ask(created.id, 'destroy')
  expect(gone.result).toMatchObject({ desktop_state: 'destroyed', generation: 2, cleanup: 'done' })
  expect(await stack.see(created.id)).toMatchObject({ state: 'destroyed', generation: 2 })
  expect(await stack.inventory()).toEqual([])
  expect(await stack.held(created.id)).toBeUndefined()
})

test('a boot waits until its image is ready, and where that never comes the wake succeeds in time and says so', async () => {
  await using stack = await Stack.start()
  const { driver } = stack.host
  driver.faults.readiness = { command: 'cat /run/session', tryTimeoutSecs: 1 }
  const { id } = await stack.desktop()
  const { id: operation } = await stack.begin(id, 'wake')
  await waitFor('a try', () => (driver.faults.counts.exec ?? 0) > 0)
  expect((await stack.see(id)).state).toBe('waking')
  await stack.host.inGuest(id, ': >/run/session')
  expect(await stack.settled(operation)).toMatchObject({ state: 'succeeded', result: { ready: true } })
  await stack.ask(id, 'hibernate')
  expect((await stack.ask(id, 'wake')).result).toMatchObject({ resumed_from: 'memory', ready: true })

  driver.faults.readiness = { command: 'false', tryTimeoutSecs: 1 }
  const never = (await stack.desktop()).id
  const woken = await stack.withDeadline(2_000, async () => stack.settled((await stack.begin(never, 'wake')).id))
  expect(woken).toMatchObject({ state: 'succeeded', result: { resumed_from: 'image', ready: false } })
  expect((await stack.exec(never, 'echo it answers')).json.stdout).toBe('it answers\n')
})

test('ten cycles of sleep keep memory, boot and disk, and leave one image at most', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  await stack.remember(id, 'ten')
  const boot = (await stack.exec(id, 'cat /proc/sys/kernel/random/boot_id')).json.stdout
  for (let cycle = 0; cycle < 10; cycle++) {
    await stack.ask(id, 'hibernate')
    expect((await stack.ask(id, 'wake')).result?.resumed_from).toBe('memory')
  }
  expect(await stack.recall(id)).toEqual({ memory: 'ten', disk: 'ten' })
  expect((await stack.exec(id, 'cat /proc/sys/kernel/random/boot_id')).json.stdout).toBe(boot)
  expect(await stack.see(id)).toMatchObject({ generation: 11 })
})

test('a mutation is answered 202 while pending, 200 once settled, and at once with the result where it waits', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop()
  const release = stack.host.driver.faults.hang('startCold')
  const accepted = await stack.api('POST', `/v1/desktops/${id}/wake`, { headers: { 'idempotency-key': 'w' } })
  expect(accepted.status).toBe(202)
  expect(accepted.json).toMatchObject({ state: 'pending', kind: 'wake', result: null, error: null, settled_at: null })
  const replay = await stack.api('POST', `/v1/desktops/${id}/wake`, { headers: { 'idempotency-key': 'w' } })
  expect(replay.status).toBe(202)
  release()
  expect(await stack.settled(accepted.json.id)).toMatchObject({ state: 'succeeded' })
  for (const query of ['', '?wait=false', '?wait=true']) {
    const again = await stack.api('POST', `/v1/desktops/${id}/wake${query}`, { headers: { 'idempotency-key': 'w' } })
    expect([again.status, again.json.id, again.json.state]).toEqual([200, accepted.json.id, 'succeeded'])
  }
})

test('a failed operation is 409 with its id to one who waits, and 200 to one who does not', async () => {
  await using stack = await Stack.start({ controlPlane: { defaultImage: 'none-such' } })
  const { id } = await stack.desktop()
  const wish = { headers: { 'idempotency-key': 'w' } }
  const failed = await stack.api('POST', `/v1/desktops/${id}/wake?wait=true`, wish)
  expect(failed.status).toBe(409)
  expect(failed.headers['content-type']).toBe('application/problem+json')
  expect(failed.json).toMatchObject({ type: 'about:blank', title: 'Conflict', status: 409, code: 'operation_failed' })
  const operation = await stack.operation(failed.json.operation_id)
  expect(operation).toMatchObject({ state: 'failed', result: null, error: failed.json.detail })
  const replay = await stack.api('POST', `/v1/desktops/${id}/wake`, wish)
  expect([replay.status, replay.json.state]).toEqual([200, 'failed'])
  const waited = await stack.api('POST', `/v1/desktops/${id}/wake?wait=true`, wish)
  expect([waited.status, waited.json.operation_id]).toEqual([409, operation.id])
})

test('a desktop that never woke is destroyed without any host', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  const { id } = await stack.desktop()
  expect((await stack.ask(id, 'destroy')).result).toMatchObject({
    desktop_state: 'destroyed',
    cleanup: 'done',
    host_id: null,
  })
})

test('lists show the newest first, hide what is destroyed unless asked for, and page without loss', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  const ids: string[] = []
  for (let i = 0; i < 5; i++) ids.unshift((await stack.desktop()).id)
  await stack.ask(ids[2]!, 'destroy')
  const living = ids.filter((id) => id !== ids[2])
  const list = async (query: string) =>
    (await stack.api('GET', `/v1/desktops${query}`)).json.desktops.map((d: { id: string }) => d.id)
  expect(await list('')).toEqual(living)
  expect(await list('?state=created')).toEqual(living)
  expect(await list('?state=destroyed')).toEqual([ids[2]])
  expect(await list('?state=awake')).toEqual([])
  expect(await list('?state=awake&state=created&state=created')).toEqual(living)
  expect(await list('?state=destroyed&state=created')).toEqual(ids)
  const { headers } = await stack.api('GET', '/v1/desktops?state=destroyed&state=created&limit=3')
  const next = /\?[^>]*/.exec(String(headers.link))![0]
  expect(await list(next)).toEqual(ids.slice(3))
  const paged: string[] = []
  for (let cursor: string | undefined, first = true; first || cursor; first = false) {
    const page = await stack.client.listDesktops({ limit: 2, cursor })
    paged.push(...page.desktops.map(({ id }) => id))
    cursor = page.next
  }
  expect(paged).toEqual(living)
})
