// Guarantee: an operator, and only an operator, reads from /metrics what the service does, under names that stay.
import { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { createServer } from 'node:tls'
import { release } from '@dormouse/process'
import { expect, test } from 'vitest'
import { Authority } from '../real/parts/authority.ts'
import { Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'

test('the metrics need an operator key: 401 without, 403 for a customer', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  const operator = await stack.replica.parts.principals.createOperatorKey('monitoring')
  const asked = await Promise.all(
    [null, 'svc_op_wrong', stack.org.key, operator].map((key) => stack.api('GET', '/metrics', { key })),
  )
  expect(asked.map(({ status }) => status)).toEqual([401, 401, 403, 200])
  expect(asked.at(-1)?.headers['content-type']).toMatch(/^text\/plain; version=0\.0\.4/)
  expect(
    asked
      .slice(0, 3)
      .map(({ text }) => text)
      .join(),
  ).not.toContain('dormouse_')
})

/** The value of one series. */
function seriesOf(text: string, series: string): number | undefined {
  const line = text.split('\n').find((one) => one.startsWith(`${series} `))
  return line === undefined ? undefined : Number(line.slice(series.length + 1))
}

test('a wake, a refusal and an unknown path are counted under bounded names', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  await stack.api('GET', `/v1/desktops/${id}`)
  await stack.api('GET', `/v1/desktops/${id}/nothing?secret=1`)
  await stack.api('POST', `/v1/desktops/${id}/wake`)
  const text = await stack.metrics()
  expect(text).not.toContain(id)
  expect(text).not.toContain('secret')
  const requests = 'dormouse_http_request_duration_seconds_count'
  expect(seriesOf(text, `${requests}{method="GET",route="/v1/desktops/:id",status="200"}`)).toBe(2)
  expect(seriesOf(text, `${requests}{method="GET",route="unknown",status="404"}`)).toBe(1)
  expect(seriesOf(text, `${requests}{method="POST",route="/v1/desktops/:id/wake",status="409"}`)).toBe(1)
  expect(seriesOf(text, 'dormouse_operations_accepted_total{kind="wake"}')).toBe(1)
  expect(seriesOf(text, 'dormouse_operation_duration_seconds_count{kind="wake",state="succeeded"}')).toBe(1)
  expect(seriesOf(text, 'dormouse_operation_wait_seconds_count{kind="wake"}')).toBe(1)
  const step = '{kind="wake",step="run",way="run",outcome="succeeded"}'
  expect(seriesOf(text, `dormouse_operation_step_duration_seconds_count${step}`)).toBe(1)
  expect(
    seriesOf(text, 'dormouse_link_command_duration_seconds_count{command="desktop.ensureAwake",outcome="succeeded"}'),
  ).toBe(1)
  expect(seriesOf(text, 'dormouse_operations_waiting')).toBe(0)
})

test('hosts, capacity, leadership, pool and the process are shown', async () => {
  await using stack = await Stack.start()
  await stack.desktop('awake')
  const text = await stack.metrics()
  expect(seriesOf(text, `dormouse_build_info{version="${release.version}",commit="sources"}`)).toBe(1)
  expect(seriesOf(text, 'dormouse_leader')).toBe(1)
  expect(seriesOf(text, 'dormouse_leader_terms_total')).toBe(1)
  expect(seriesOf(text, 'dormouse_links')).toBe(1)
  expect(seriesOf(text, 'dormouse_hosts{state="active"}')).toBe(1)
  expect(seriesOf(text, 'dormouse_hosts{state="lost"}')).toBe(0)
  expect(seriesOf(text, 'dormouse_host_memory_bytes{amount="reserved"}')).toBe(512 * 1_048_576)
  expect(seriesOf(text, 'dormouse_db_pool_connections{state="used"}')).toBeGreaterThanOrEqual(0)
  expect(seriesOf(text, 'process_resident_memory_bytes')).toBeGreaterThan(1_000_000)
  expect(text).toMatch(/^nodejs_eventloop_lag_p99_seconds \d/m)
})

test('the connections of the database, the last backup, a certificate and the clocks of hosts are shown', async () => {
  using authority = await Authority.create()
  const { certificate: cert, key } = await authority.issue('IP:127.0.0.1')
  await using server = createServer({ cert, key })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const pageUrl = `https://127.0.0.1:${(server.address() as AddressInfo).port}`
  await using stack = await Stack.start({ controlPlane: { pageUrl } })
  const before = await stack.metrics()
  expect(seriesOf(before, 'dormouse_backup_last_success_timestamp_seconds')).toBe(0)
  const [used, most] = ['used', 'most'].map(
    (state) => seriesOf(before, `dormouse_database_connections{state="${state}"}`)!,
  )
  expect([used! > 0, most! > used!]).toEqual([true, true])
  const ends = seriesOf(before, 'dormouse_certificate_end_timestamp_seconds{for="page"}')!
  expect(ends).toBe(Date.parse(new X509Certificate(cert).validTo) / 1_000)
  const operator = await stack.replica.parts.principals.createOperatorKey('ops')
  const offset = await waitFor('the offset of a clock', async () => {
    const { hosts } = (await stack.api('GET', '/admin/v1/hosts', { key: operator })).json
    return hosts[0].clock_offset_secs !== null && [hosts[0].clock_offset_secs]
  })
  // Both read one clock.
  expect(Math.abs(offset[0])).toBeLessThan(60)
})

test('one line for each request and each operation says what an operator needs, and no path', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  const read = await stack.api('GET', `/v1/desktops/${id}?secret=1`)
  const hibernated = await stack.api('POST', `/v1/desktops/${id}/hibernate?wait=true`)
  const requestId = read.headers['x-request-id']
  await waitFor('the line', () => stack.chronicle.find(/^request$/).some(({ request }) => request === requestId))
  const line = stack.chronicle.find(/^request$/).find(({ request }) => request === requestId)
  expect(line).toMatchObject({
    level: 30,
    module: 'http',
    method: 'GET',
    route: '/v1/desktops/:id',
    status: read.status,
  })
  expect(line).toMatchObject({ org: stack.org.id, caller: expect.any(String), ms: expect.any(Number) })
  expect(line).toMatchObject({ bytes: Buffer.byteLength(read.text) })
  expect(JSON.stringify(line)).not.toContain('secret')
  const [settled] = stack.chronicle.find(/^operation settled$/).filter(({ kind }) => kind === 'hibernate')
  const operation = { kind: 'hibernate', desktop: id, org: stack.org.id, host: stack.host.id, state: 'succeeded' }
  expect(settled).toMatchObject({ ...operation, waitedMs: expect.any(Number), ranMs: expect.any(Number) })
  expect(settled?.request).toBe(hibernated.headers['x-request-id'])
})

test('an agent shows its commands and phases at an address of its own, and logs with the id of the request', async () => {
  await using stack = await Stack.start({ agent: { metricsListen: { host: '127.0.0.1', port: 0 } } })
  const { id } = await stack.desktop('awake')
  const woken = await stack.api('POST', `/v1/desktops/${id}/hibernate?wait=true`)
  const text = await (await fetch(stack.host.metricsUrl!)).text()
  expect(
    seriesOf(
      text,
      'dormouse_agent_command_duration_seconds_count{command="desktop.ensureHibernated",outcome="succeeded"}',
    ),
  ).toBe(1)
  expect(seriesOf(text, 'dormouse_agent_commands_in_progress{command="desktop.ensureHibernated"}')).toBe(0)
  expect(seriesOf(text, 'dormouse_agent_phase_duration_seconds_count{phase="booting"}')).toBe(1)
  expect(seriesOf(text, 'dormouse_agent_links')).toBe(1)
  expect(text).toMatch(/^nodejs_eventloop_lag_seconds /m)
  expect(text).not.toContain(id)
  expect((await fetch(stack.host.metricsUrl!.replace('/metrics', '/else'))).status).toBe(404)
  const [line] = stack.chronicle.find(/^command$/).filter(({ command }) => command === 'desktop.ensureHibernated')
  const request = woken.headers['x-request-id']
  expect(line).toMatchObject({ request, operation: woken.json.id, desktop: id, outcome: 'succeeded', host: 'sim-1' })
})
