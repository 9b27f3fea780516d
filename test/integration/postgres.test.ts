// Guarantee: a database that goes away delays what is under way, ends nothing, and loses nothing that was accepted.
import type { OperationJson, RequestKind } from '@dormouse/contract'
import { retryLimitMs } from '@dormouse/control-plane/db/pool.ts'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'
import { send } from './parts/api.ts'
import { type OwnPostgres, ownPostgres } from './parts/own-postgres.ts'
import { beginTraffic, countsOf } from './parts/traffic.ts'

let own: OwnPostgres
let stack: Stack

beforeAll(async () => {
  own = await ownPostgres()
  // How long Postgres is away is the machine's affair: no deadline of an operation is meant to be over meanwhile.
  const unhurried = { wakeDeadlineMs: 120_000, hibernateDeadlineMs: 120_000 }
  stack = await Stack.start({ databaseServer: own.postgres.url, controlPlane: unhurried })
  stack.chronicle.foresee(/./)
})
beforeEach(() => waitFor('leadership', () => stack.replica.leads))
afterAll(async () => {
  await stack?.[Symbol.asyncDispose]()
  await own?.[Symbol.asyncDispose]()
})

/** As any client does: retries with its key if a leader that has just begun has lost its term again. */
const begin = (id: string, kind: RequestKind): Promise<OperationJson> =>
  waitFor(`the ${kind} to be accepted`, async () => {
    const answer = await stack.api('POST', `/v1/desktops/${id}/${kind}`, { headers: { 'idempotency-key': kind } })
    if (answer.status !== 503) expect([200, 202]).toContain(answer.status)
    return answer.status !== 503 && (answer.json as OperationJson)
  })

test('a Postgres that is restarted, then killed, while operations run: each goes on and ends well; mutations meanwhile are 503, and reads and commands wait for it', async () => {
  const { id } = await stack.desktop('awake')
  await stack.remember(id, 'durable')
  const { id: other } = await stack.desktop('awake')
  const release = stack.host.driver.faults.hang('save')
  const hibernation = await stack.begin(id, 'hibernate')
  await waitFor('the save', () => stack.host.failpoints.hits.includes('hibernate.before-save'))
  const key = await stack.replica.parts.principals.createOperatorKey('ops')
  await own.postgres.stop()
  const denied = await stack.api('POST', '/v1/desktops', { body: { tier: 'small' } })
  expect([denied.status, denied.headers['retry-after'] !== undefined]).toEqual([503, true])
  const act = await stack.api('POST', '/admin/v1/orgs', { key, body: { name: 'meanwhile' } })
  expect([act.status, act.json.code]).toEqual([503, 'database_unavailable'])
  release()
  const askedAt = performance.now()
  const [reading, entering] = [stack.api('GET', `/v1/desktops/${id}`), stack.exec(other, 'echo here')]
  await own.postgres.restart()
  // On a busy machine Postgres may start more slowly than a request waits for it.
  const waitedInVain = performance.now() - askedAt > retryLimitMs.contract
  const [read, entered] = await Promise.all([reading, entering])
  expect([200, ...(waitedInVain ? [500] : [])]).toContain(read.status)
  expect(entered).toMatchObject(waitedInVain ? {} : { status: 200, json: { stdout: 'here\n' } })
  await waitFor('leadership', () => stack.replica.leads)
  expect(await stack.settled(hibernation.id)).toMatchObject({ state: 'succeeded' })
  const wake = await begin(id, 'wake')
  await own.postgres.kill()
  await own.postgres.restart()
  await waitFor('leadership', () => stack.replica.leads)
  expect(await stack.settled(wake.id)).toMatchObject({ state: 'succeeded', result: { resumed_from: 'memory' } })
  expect(await stack.recall(id)).toEqual({ memory: 'durable', disk: 'durable' })
})

test('a Postgres that is frozen is told as away by /readyz, and what is under way goes on after it', async () => {
  const { id } = await stack.desktop('awake')
  const release = stack.host.driver.faults.hang('save')
  const hibernation = await stack.begin(id, 'hibernate')
  await waitFor('the save', () => stack.host.failpoints.hits.includes('hibernate.before-save'))
  own.still('SIGSTOP')
  release()
  // The pool itself would wait for twelve seconds.
  const noticed = waitFor(
    '/readyz to notice',
    async () => {
      const { status, json } = await send(`${stack.replica.url}/readyz`, 'GET', {})
      return json.database === false && { status, said: json.status }
    },
    8_000,
  )
  expect(await noticed.finally(() => own.still('SIGCONT'))).toEqual({ status: 503, said: 'not ready' })
  await waitFor('leadership', () => stack.replica.leads)
  expect(await stack.settled(hibernation.id)).toMatchObject({ state: 'succeeded' })
})

test('a Postgres that is killed again and again under traffic makes nobody see a 500', async () => {
  const { id: awake } = await stack.desktop()
  await stack.settled((await begin(awake, 'wake')).id)
  await using traffic = beginTraffic(stack, { awake })
  for (let kill = 0; kill < 2; kill++) {
    const soFar = traffic.noted.length
    await waitFor('traffic', () => stack.replica.leads && traffic.noted.length > soFar + 50)
    await own.postgres.kill()
    await own.postgres.restart()
  }
  const counts = countsOf(await traffic.stop())
  expect(Object.entries(counts).filter(([, statuses]) => 500 in statuses)).toEqual([])
})

test('while Postgres is down the metrics still answer a key that was verified lately, and no other', async () => {
  const operator = await stack.replica.parts.principals.createOperatorKey('monitoring')
  const read = (key: string) => stack.api('GET', '/metrics', { key })
  expect((await read(operator)).status).toBe(200)
  await own.postgres.stop()
  await waitFor('leadership to end', () => !stack.replica.leads)
  const [metrics, customer, unknown] = await Promise.all([operator, stack.org.key, `${operator}x`].map(read))
  expect(metrics!.status).toBe(200)
  expect(metrics!.text).toMatch(/^dormouse_leader 0$/m)
  expect([customer!.status, unknown!.status]).toEqual([403, 401])
  await own.postgres.restart()
  await waitFor('leadership', () => stack.replica.leads)
})
