// Guarantee: an owner sees what a desktop has used, and why times have no figures; reading it wakes nothing, and costs nothing
// unless it is asked for. Each trouble of a guest is one event, whichever replica leads.
import type { MetricsJson } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'

const often = { agent: { activityEveryMs: 100 } }
const metrics = async (stack: Stack, id: string, query = ''): Promise<MetricsJson> => {
  const { status, json, text } = await stack.api('GET', `/v1/desktops/${id}/metrics${query}`)
  if (status !== 200) throw new Error(`metrics: ${status} ${text}`)
  return json as MetricsJson
}
const last = async (stack: Stack, id: string) =>
  (await stack.api('GET', `/v1/desktops/${id}?include=metrics`)).json.metrics

/** Uses half a processor, and so much memory. */
function use(stack: Stack, id: string, memoryUsedMiB: number): void {
  const since = performance.now()
  stack.hosts[0]!.driver.used.set(id, {
    get ranMs() {
      return (performance.now() - since) / 2
    },
    get sentBytes() {
      return performance.now() - since
    },
    ...{ processorMs: 0, networkBytes: 0, memoryUsedMiB },
  })
}

test('the figures of an awake desktop are kept over a sleep and an agent’s restart, and say what they miss', async () => {
  await using stack = await Stack.start(often)
  const { id } = await stack.desktop()
  expect(await last(stack, id)).toBeNull()
  const never = await metrics(stack, id)
  expect([never.points, never.missing]).toEqual([[], [{ start: never.start, end: never.end, reason: 'asleep' }]])
  use(stack, id, 300)
  await stack.ask(id, 'wake')
  const seen = await waitFor('a figure', () => last(stack, id))
  expect(seen).toMatchObject({ memory_used_mib: 300, memory_mib: expect.any(Number), disk_read_bytes_per_sec: 0 })
  expect(seen.cpu_percent).toBeCloseTo(50, -1)
  const { points, missing, step } = await metrics(stack, id)
  expect([step, points.length > 0, missing[0]!.reason]).toEqual([30, true, 'asleep'])
  await stack.ask(id, 'hibernate')
  const asleep = await last(stack, id)
  await stack.host.restart()
  await waitFor('the host to be back', async () => (await last(stack, id))?.at === asleep.at)
  expect((await metrics(stack, id)).points).toEqual(expect.arrayContaining(points.slice(0, -1)))
  expect((await stack.see(id)).state).toBe('hibernated')
  expect(await stack.see(id)).not.toHaveProperty('metrics')
  await stack.ask(id, 'destroy')
  expect(await last(stack, id)).toBeNull()
  expect((await metrics(stack, id)).points).toEqual([])
})

test('without its host, figures are refused by name, and the desktop is shown without them', async () => {
  await using stack = await Stack.start(often)
  const { id } = await stack.desktop('awake')
  await stack.host.kill()
  await waitFor('the link to be lost', () => !stack.replica.parts.links.has(stack.host.id))
  const refused = await stack.api('GET', `/v1/desktops/${id}/metrics`)
  expect([refused.status, refused.json.code, refused.headers['retry-after']]).toEqual([503, 'host_unreachable', '5'])
  const { status, json } = await stack.api('GET', `/v1/desktops/${id}?include=metrics`)
  expect([status, json.metrics]).toEqual([200, null])
})

test('a wrong time, step or inclusion is named', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  const { id } = await stack.desktop()
  const refusedField = async (path: string) => {
    const { status, json } = await stack.api('GET', `/v1/desktops/${id}${path}`)
    return [status, json.field]
  }
  for (const [query, field] of [
    ['start=a', 'start'],
    ['start=100&end=99', 'start'],
    ['start=0&end=86401', 'start'],
    ['start=0&end=86400&step=59', 'step'],
    ['step=9', 'step'],
    ['step=1.5', 'step'],
    ['step=86401', 'step'],
    ['to=5', 'to'],
  ] as const)
    expect([query, ...(await refusedField(`/metrics?${query}`))]).toEqual([query, 400, field])
  for (const query of ['include=all', 'include=', 'include=metrics&include=metrics'])
    expect([query, ...(await refusedField(`?${query}`))]).toEqual([query, 400, 'include'])
  const whole = await metrics(stack, id, '?start=0&end=86400')
  expect([whole.step, whole.missing]).toEqual([720, [{ start: 0, end: 86_400, reason: 'asleep' }]])
})

const troubles = (stack: Stack, id: string) =>
  stack.database.rows<{ type: string; data: Record<string, unknown>; labels: object | null }>(
    `select type, data, labels from events
     where desktop_id = $1 and type in ('desktop.out_of_memory', 'desktop.disk_full') order by seq`,
    [id],
  )

test('a killed process and full disks are one event each, over a change of the leader, and reach webhooks’ and events’ readers', async () => {
  await using stack = await Stack.start({ ...often, replicas: 2 })
  const { id } = await stack.desktop('awake')
  await stack.api('PATCH', `/v1/desktops/${id}`, { body: { labels: { team: 'qa' } } })
  const { driver } = stack.host
  const count = (most: number) => waitFor(`${most} events`, async () => (await troubles(stack, id)).length >= most)
  driver.prints.set(id, '[ 1.0] Out of memory: Killed process 5 (a\u001b[31mb) total-vm:1kB\n')
  await count(1)
  const leader = stack.replicas.find(({ leads }) => leads)!
  await leader.stop()
  await leader.start()
  let written = 0
  driver.used.set(id, {
    ...{ processorMs: 0, networkBytes: 0 },
    get writtenBytes() {
      written += 2 ** 20
      return written
    },
  })
  driver.fileSystems.set(id, [{ path: '/srv', totalBytes: 2 ** 30, freeBytes: 0 }])
  await count(2)
  const { json } = await stack.api(
    'GET',
    '/v1/events?limit=10&type=desktop.out_of_memory&type=desktop.disk_full&select=team%3Dqa',
  )
  expect(json.events.map(({ type, data }: { type: string; data: object }) => [type, data])).toEqual([
    ['desktop.out_of_memory', { process: 'a [31mb', kills: 1, generation: 1 }],
    ['desktop.disk_full', { where: 'guest', path: '/srv', generation: 1 }],
  ])
})

test('a host tells of its own desktops alone, and nothing that it says makes its heartbeat fail', async () => {
  await using stack = await Stack.start({ hosts: 2 })
  const { id } = await stack.desktop('awake')
  const { host_id: own } = await stack.see(id)
  const other = stack.hosts.find((host) => host.id !== own)!
  const { wings } = stack.replica.parts
  const trouble = { desktopId: id, kind: 'out_of_memory', at: 5, process: 'x', kills: 1, where: null, path: null }
  const says = (hostId: string, ...given: object[]) => wings.figures.heard(hostId, { troubles: given as never })
  await says(other.id, trouble)
  expect(await troubles(stack, id)).toEqual([])
  await says(own!, trouble, { ...trouble, at: 6 }, { ...trouble, kind: 'later' }, { ...trouble, kind: 'constructor' })
  await says(own!, { ...trouble, at: 6 })
  await says(own!, trouble)
  expect(await troubles(stack, id)).toHaveLength(1)
  await says(own!, { ...trouble, at: 7 })
  expect(await troubles(stack, id)).toHaveLength(2)
})
