// Guarantee: `npm start -- --replicas 2` gives two control planes on one database; the one that does not lead says so and
// serves the rest, and when the process that leads is killed the other leads and goes on with what was accepted.
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import type { OperationJson } from '@dormouse/client'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { alive, signal } from '../../scripts/testbed/processes.ts'
import { type ApiAnswer, type ApiWish, send } from '../integration/parts/api.ts'
import { waitFor } from '../wait-for.ts'
import { Instance } from './parts/instance.ts'

let instance: Instance
beforeAll(async () => {
  // The lease is longer than the wait for a successor of one that was killed.
  const env = { DORMOUSE_AGENT_SIMULATED_LATENCY_MS: 'startCold=1500', DORMOUSE_LEASE_SECS: '6' }
  instance = await Instance.start(env, ['--no-tour', '--simulated', '1', '--replicas', '2'])
})
afterAll(async () => {
  await instance?.[Symbol.asyncDispose]()
})

const bin = fileURLToPath(new URL('../../node_modules/.bin/dormouse', import.meta.url))

const ask = (url: string, method: string, path: string, wish: ApiWish = {}): Promise<ApiAnswer> =>
  send(url + path, method, { key: instance.local.api_key, ...wish })

/** The address of the leader, and that of the other one. */
function addresses(): [leader: string, other: string] {
  const leader = instance.local.base_url
  return [leader, instance.urls.find((url) => url !== leader)!]
}

test('a mutation at the replica that does not lead is 503 with Retry-After; both serve reads and guests', async () => {
  const [leader, other] = addresses()
  const body = { tier: 'small' }
  const refused = await ask(other, 'POST', '/v1/desktops', { body })
  expect([refused.status, refused.json.code]).toEqual([503, 'not_leader'])
  expect(Number(refused.headers['retry-after'])).toBeGreaterThan(0)
  const { id } = (await ask(leader, 'POST', '/v1/desktops', { body })).json
  expect((await ask(leader, 'POST', `/v1/desktops/${id}/wake?wait=true`)).status).toBe(200)
  const seen = await Promise.all([leader, other].map((url) => ask(url, 'GET', `/v1/desktops/${id}`)))
  expect(seen.map(({ json }) => json.state)).toEqual(['awake', 'awake'])
  expect(seen[1]!.text).toBe(seen[0]!.text)
  const echo = { body: { command: 'echo here' } }
  await waitFor(async () => (await ask(other, 'POST', `/v1/desktops/${id}/exec`, echo)).json.stdout === 'here\n')
})

test('kill -9 of the process that leads: the other leads, ends what was accepted, and the command line finds it', async () => {
  const [leader, other] = addresses()
  const { id } = (await ask(leader, 'POST', '/v1/desktops', { body: { tier: 'small' } })).json
  const wish = { headers: { 'idempotency-key': 'across the kill' } }
  const accepted = await ask(leader, 'POST', `/v1/desktops/${id}/wake`, wish)
  expect(accepted.status).toBe(202)
  await instance.kill(instance.replicaAt(leader))
  const again = await waitFor(async () => {
    const answer = await ask(other, 'POST', `/v1/desktops/${id}/wake?wait=true`, wish)
    return answer.status !== 503 && answer
  })
  expect(again.json).toMatchObject({ id: accepted.json.id, state: 'succeeded', result: { generation: 1 } })
  await waitFor(() => instance.local.base_url === other)
  expect(instance.log).toContain(`(${other}) leads now`)
  const env = { ...process.env, DORMOUSE_DATA: instance.dataDir }
  const { stdout } = await promisify(execFile)(bin, ['hibernate', id, '--json'], { env })
  expect((JSON.parse(stdout) as OperationJson).state).toBe('succeeded')
  // The one that was killed is back, and stands by.
  const standsBy = () => ask(leader, 'GET', '/readyz').catch(() => undefined)
  await waitFor(async () => (await standsBy())?.status === 200)
  expect((await ask(leader, 'POST', '/v1/desktops', { body: { tier: 'small' } })).status).toBe(503)
})

test('a frozen leader is replaced when its lease expires, and changes nothing when it continues', async () => {
  const [leader, other] = addresses()
  const frozen = instance.process(instance.replicaAt(leader))!
  const create = (url: string) => ask(url, 'POST', '/v1/desktops', { body: { tier: 'small' } })
  signal(frozen, 'SIGSTOP')
  const late = create(leader)
  try {
    await waitFor(async () => (await create(other)).status === 201)
  } finally {
    signal(frozen, 'SIGCONT')
  }
  expect([(await late).status, (await create(leader)).status]).toEqual([503, 503])
  expect(alive(frozen)).toBe(true)
})
