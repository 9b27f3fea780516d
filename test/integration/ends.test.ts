// Guarantee: a desktop is destroyed at its end, and wakes and hibernates by its schedule, once and within seconds, also after the
// leader has changed; what cannot be done is skipped, and said so.
import { createAdminClient } from '@dormouse/client'
import type { EventJson, IdleJson } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'

const create = (stack: Stack, body: object) => stack.api('POST', '/v1/desktops', { body: { tier: 'small', ...body } })
const change = (stack: Stack, id: string, body: object) => stack.api('PATCH', `/v1/desktops/${id}`, { body })
const operationsOf = async (stack: Stack, id: string) =>
  (await stack.client.listOperations(id)).operations.map(({ kind, requested_by, state }) => [kind, requested_by, state])
const nextOf = async (stack: Stack, id: string) =>
  ((await stack.api('GET', `/v1/desktops/${id}/idle`)).json as IdleJson).next.map(({ what, because }) => [
    what,
    because,
  ])

async function eventsOf(stack: Stack, id: string, type: EventJson['type']): Promise<EventJson['data'][]> {
  const { json } = await stack.api('GET', `/v1/events?limit=100&desktop_id=${id}&type=${type}`)
  return json.events.map(({ data }: EventJson) => data)
}

/** A time of every day that was so many minutes ago; the schedule was set before it. */
async function missed(stack: Stack, id: string, action: 'wake' | 'hibernate', minutes: number): Promise<Date> {
  const planned = new Date(Math.floor(Date.now() / 60_000 - minutes) * 60_000)
  const cron = `${planned.getUTCMinutes()} ${planned.getUTCHours()} * * *`
  expect((await change(stack, id, { schedule: { [action]: { cron } } })).status).toBe(200)
  const before = new Date(planned.getTime() - 1_000)
  await stack.database.rows(`update desktops set ${action}_after = $2, due_at = now() where id = $1`, [id, before])
  return planned
}

const endsIn = (stack: Stack, id: string, secs: number) =>
  stack.database.rows(
    `update desktops set destroy_at = now() + $2 * interval '1 second', due_at = now() where id = $1`,
    [id, secs],
  )

/** The leader has noted everything that is due now. */
const looked = (stack: Stack) =>
  waitFor('nothing to be due', async () => {
    const due = await stack.database.rows('select 1 from desktops where due_at <= now()')
    return due.length === 0
  })

test('an end is set, moved and removed; an event comes an hour before, and the next leader destroys', async () => {
  await using stack = await Stack.start({ replicas: 2 })
  const made = await create(stack, { destroy_after_secs: 7_200 })
  expect(made.status).toBe(201)
  const { id } = made.json
  const inMs = Date.parse(made.json.destroy_at) - Date.now()
  expect(inMs).toBeGreaterThan(7_100_000)
  expect(inMs).toBeLessThan(7_300_000)
  expect(await nextOf(stack, id)).toEqual([['destroy', 'end']])
  await looked(stack)
  expect(await eventsOf(stack, id, 'desktop.destroy_soon')).toEqual([])

  await endsIn(stack, id, 3_500)
  const { destroy_at } = await stack.see(id)
  const noted = await waitFor('the event', async () => {
    const events = await eventsOf(stack, id, 'desktop.destroy_soon')
    return events.length > 0 && events
  })
  expect(noted).toEqual([{ destroy_at }])
  const later = await change(stack, id, { destroy_after_secs: 7_200 })
  expect(Date.parse(later.json.destroy_at)).toBeGreaterThan(Date.parse(destroy_at!))
  await endsIn(stack, id, 3_000)
  await waitFor('another event', async () => (await eventsOf(stack, id, 'desktop.destroy_soon')).length === 2)
  const removed = await change(stack, id, { destroy_after_secs: null })
  expect(removed.json.destroy_at).toBeNull()
  expect(await nextOf(stack, id)).toEqual([])
  // With less than an hour there is no event.
  await change(stack, id, { destroy_after_secs: 3_000 })
  await looked(stack)
  expect(await eventsOf(stack, id, 'desktop.destroy_soon')).toHaveLength(2)

  // The leader dies right after it has accepted one destroy; the other one is due while nobody leads.
  const other = await stack.desktop('awake', { destroy_after_secs: 7_200 })
  await stack.ask(id, 'wake')
  const accepted = Promise.withResolvers<void>()
  const go = Promise.withResolvers<void>()
  stack.failpoints.set('operation.accepted', () => {
    accepted.resolve()
    return go.promise
  })
  await endsIn(stack, id, -1)
  await accepted.promise
  stack.failpoints.set('operation.accepted', undefined)
  await stack.replica.stopAt(go.resolve)
  await endsIn(stack, other.id, -1)
  await waitFor('the destroys', async () => {
    const rows = await stack.database.rows(`select 1 from desktops where state = 'destroyed'`)
    return rows.length === 2
  })
  await stack.database.rows('update desktops set due_at = now()')
  await looked(stack)
  await stack.replica.start()
  await stack.linked(stack.host)
  for (const gone of [id, other.id]) {
    expect(await operationsOf(stack, gone)).toEqual([
      ['destroy', 'schedule', 'succeeded'],
      ['wake', 'caller', 'succeeded'],
    ])
    expect(await stack.see(gone)).toMatchObject({ state: 'destroyed', destroy_at: null })
  }
})

test('an end comes in every state, also while the host is unreachable', async () => {
  await using stack = await Stack.start()
  const asleep = await stack.desktop('hibernated')
  const fresh = await stack.desktop()
  const waking = await stack.desktop()
  const go = Promise.withResolvers<void>()
  stack.failpoints.set('wake.run.before', () => go.promise)
  await stack.begin(waking.id, 'wake')
  await stack.killAgent()
  for (const { id } of [asleep, fresh, waking])
    expect((await change(stack, id, { destroy_after_secs: 1 })).status).toBe(200)
  for (const { id } of [asleep, fresh, waking])
    await waitFor('the destroy', async () => (await stack.see(id)).state === 'destroyed')
  go.resolve()
  const [last] = (await stack.client.listOperations(asleep.id)).operations
  expect(last).toMatchObject({ kind: 'destroy', requested_by: 'schedule', result: { cleanup: 'deferred' } })
  await stack.restartAgent()
})

test('a schedule wakes and hibernates, once each, and is shown with what comes next', async () => {
  await using stack = await Stack.start()
  const schedule = {
    wake: { cron: ' 0  8 * * 1-5', time_zone: 'Europe/Berlin' },
    hibernate: { at: '2099-01-01T18:00:00', time_zone: 'Europe/Berlin' },
  }
  const made = await create(stack, { schedule, destroy_after_secs: 3_000_000_000 })
  const shown = {
    wake: { cron: '0 8 * * 1-5', time_zone: 'Europe/Berlin' },
    hibernate: { at: '2099-01-01T17:00:00.000Z' },
  }
  expect(made.json.schedule).toEqual(shown)
  const { id } = made.json
  expect(await nextOf(stack, id)).toEqual([
    ['wake', 'schedule'],
    ['hibernate', 'schedule'],
    ['destroy', 'end'],
  ])
  expect((await change(stack, id, { schedule: { hibernate: null } })).json.schedule).toEqual({ wake: shown.wake })
  await missed(stack, id, 'wake', 2)
  await stack.becomes(id, 'awake')
  await missed(stack, id, 'hibernate', 1)
  await stack.becomes(id, 'hibernated')
  await looked(stack)
  expect(await operationsOf(stack, id)).toEqual([
    ['hibernate', 'schedule', 'succeeded'],
    ['wake', 'schedule', 'succeeded'],
  ])
  // One time, which a repeated request does not repeat.
  const at = new Date(Date.now() - 1_000).toISOString()
  for (let round = 0; round < 2; round++) {
    expect((await change(stack, id, { schedule: { wake: { at }, hibernate: null } })).status).toBe(200)
    await looked(stack)
    await stack.settle()
  }
  expect(await operationsOf(stack, id)).toHaveLength(3)
  expect((await change(stack, id, { schedule: null })).json.schedule).toBeNull()
})

test('a wake that finds the desktop awake restarts its idle time, and a hibernation that finds it asleep does nothing', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  await stack.database.rows(`update generations set started_at = now() - interval '1 day' where desktop_id = $1`, [id])
  await missed(stack, id, 'wake', 3)
  await looked(stack)
  const idle: IdleJson = (await stack.api('GET', `/v1/desktops/${id}/idle`)).json
  expect(idle.awake_because.map(({ reason }) => reason)).toContain('wake')
  expect(idle.next.map(({ because }) => because)).toContain('schedule')
  await stack.ask(id, 'hibernate')
  await change(stack, id, { schedule: null })
  await missed(stack, id, 'hibernate', 3)
  await looked(stack)
  expect(await operationsOf(stack, id)).toHaveLength(2)
  expect(await eventsOf(stack, id, 'desktop.schedule_skipped')).toEqual([])
})

test('what is missed by an hour, or may not be, is skipped with its reason; what was missed in a failover is done once', async () => {
  await using stack = await Stack.start({ replicas: 2 })
  const operatorKey = await stack.replica.parts.principals.createOperatorKey('ops')
  const admin = createAdminClient({ baseUrl: stack.url, operatorKey, retries: 0 })
  const { id } = await stack.desktop()
  const skipped = (count: number) =>
    waitFor('the events', async () => {
      const events = await eventsOf(stack, id, 'desktop.schedule_skipped')
      return events.length >= count && events
    })
  const planned = [await missed(stack, id, 'wake', 125)]
  await skipped(1)
  await admin.suspendOrg(stack.org.id)
  planned.push(await missed(stack, id, 'wake', 2))
  const events = await skipped(2)
  expect(events).toEqual([
    { action: 'wake', planned_at: planned[0]!.toISOString(), reason: 'missed' },
    { action: 'wake', planned_at: planned[1]!.toISOString(), reason: 'org_suspended' },
  ])
  await admin.resumeOrg(stack.org.id)
  await stack.replica.stop()
  await stack.database.rows(
    `update desktops set wake_after = wake_after - interval '30 minutes', due_at = now() where id = $1`,
    [id],
  )
  await waitFor('the wake', async () => {
    const [row] = await stack.database.rows('select state from desktops where id = $1', [id])
    return row!.state === 'awake'
  })
  await stack.replica.start()
  await stack.linked(stack.host)
  await looked(stack)
  expect(await operationsOf(stack, id)).toEqual([['wake', 'schedule', 'succeeded']])
  expect(await eventsOf(stack, id, 'desktop.schedule_skipped')).toHaveLength(2)
})

test('what cannot be a time is refused with the name of its field, and a key that was used before answers all the same', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  const { id } = await stack.desktop()
  const cases: [field: string, body: object][] = [
    ['destroy_after_secs', { destroy_after_secs: 0 }],
    ['destroy_after_secs', { destroy_after_secs: 1.5 }],
    ['destroy_after_secs', { destroy_after_secs: 1e12 }],
    ['schedule.wake.cron', { schedule: { wake: { cron: '0 0 31 2 *' } } }],
    ['schedule.wake.cron', { schedule: { wake: { cron: '0 0 8 * * 1' } } }],
    ['schedule.hibernate.cron', { schedule: { hibernate: { cron: '* '.repeat(60) } } }],
    ['schedule.hibernate.time_zone', { schedule: { hibernate: { cron: '0 8 * * *', time_zone: 'Nowhere/City' } } }],
    ['schedule.wake.at', { schedule: { wake: { at: '2020-01-01T00:00:00Z' } } }],
    ['schedule.wake.at', { schedule: { wake: { at: 'tomorrow' } } }],
    ['schedule.wake.at', { schedule: { wake: { at: '9999-12-31T23:59:59-12:00' } } }],
    ['schedule.wake.time_zone', { schedule: { wake: { at: '2099-01-01T00:00:00', time_zone: 'Nowhere' } } }],
    ['schedule.wake.time_zone', { schedule: { wake: { at: '2099-01-01T00:00:00Z', time_zone: 'UTC' } } }],
    ['schedule.wake', { schedule: { wake: {} } }],
    ['schedule.wake', { schedule: { wake: { cron: '0 8 * * *', at: '2099-01-01T00:00:00Z' } } }],
    ['schedule.sleep', { schedule: { sleep: { cron: '0 8 * * *' } } }],
  ]
  for (const [field, body] of cases)
    for (const answer of [await create(stack, body), await change(stack, id, body)])
      expect([body, answer.status, answer.json.field]).toEqual([body, 400, field])

  const at = new Date(Date.now() + 60_000).toISOString()
  const keyed = { headers: { 'idempotency-key': 'k' }, body: { tier: 'small', schedule: { wake: { at } } } }
  const first = await stack.api('POST', '/v1/desktops', keyed)
  expect(first.status).toBe(201)
  const longAgo = { ...keyed, body: { tier: 'small', schedule: { wake: { at: '2020-01-01T00:00:00Z' } } } }
  const again = await stack.api('POST', '/v1/desktops', longAgo)
  expect([again.status, again.json.id]).toEqual([200, first.json.id])
})
