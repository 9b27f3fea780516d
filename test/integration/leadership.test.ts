// Guarantee: at most one replica changes anything, the other says so and serves reads, and the change of leader is quick.
import { newId } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'
import { send } from './parts/api.ts'

test('a replica that does not lead answers 503 with Retry-After on every mutation, and serves everything else', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  const operation = (await stack.client.listOperations(id)).operations[0]!
  const second = await stack.addReplica()
  await stack.linked(stack.host)
  const { key } = stack.org
  const mutations: [string, object][] = [
    ['/v1/desktops', { tier: 'small' }],
    ...['wake', 'hibernate', 'destroy'].map((verb): [string, object] => [`/v1/desktops/${id}/${verb}`, {}]),
    [`/v1/desktops/${newId()}/wake`, {}],
  ]
  for (const [path, body] of mutations) {
    const answer = await send(second.url + path, 'POST', { key, body, headers: { 'idempotency-key': 'k' } })
    expect([path, answer.status, answer.json.code]).toEqual([path, 503, 'not_leader'])
    expect(answer.headers['retry-after']).toBe('1')
  }
  const malformed = await send(`${second.url}/v1/desktops`, 'POST', { key, body: { tier: 'huge' } })
  expect(malformed.status).toBe(400)
  expect((await send(`${second.url}/v1/desktops`, 'POST', { body: {} })).status).toBe(401)
  expect((await send(`${second.url}/v1/desktops/${id}`, 'GET', { key })).json).toEqual(await stack.see(id))
  expect((await send(`${second.url}/v1/operations/${operation.id}`, 'GET', { key })).json).toEqual(operation)
  expect((await send(`${second.url}/v1/desktops`, 'GET', { key })).json.desktops).toHaveLength(1)
  const exec = await send(`${second.url}/v1/desktops/${id}/exec`, 'POST', { key, body: { command: 'echo here' } })
  expect([exec.status, exec.json.stdout]).toEqual([200, 'here\n'])
  expect((await send(`${second.url}/readyz`, 'GET', {})).json).toMatchObject({ leader: true, leads: false })
})

test('a replica that meets the schema of a newer release changes nothing and says so, serves reads, and leads again after its upgrade', async () => {
  await using stack = await Stack.start({ controlPlane: { leadershipLeaseMs: 2_000 } })
  const { id } = await stack.desktop('awake')
  const readyz = async () => (await send(`${stack.url}/readyz`, 'GET', {})).json
  const refused = async (path: string, body: object) => {
    const { status, json, headers } = await stack.api('POST', path, { body })
    expect([path, status, json.code, headers['retry-after']]).toEqual([path, 503, 'replica_outdated', '5'])
  }
  const schema = async (release: string) =>
    void (await stack.database.rows(`update leadership set serves_from = '{${release}}'`))
  await schema('99,0,0')
  await waitFor('it to notice', async () => (await readyz()).outdated === true)
  await refused('/v1/desktops', { tier: 'small' })
  await refused(`/v1/desktops/${id}/hibernate`, {})
  await refused(`/v1/desktops/${id}/exec`, { command: 'true' })
  expect((await stack.api('POST', '/v1/desktops', { body: { tier: 'huge' } })).status).toBe(400)
  expect((await stack.see(id)).state).toBe('awake')
  expect(await readyz()).toMatchObject({ status: 'not ready', leads: false })
  expect(await stack.metrics()).toContain('dormouse_replica_outdated 1')
  expect(stack.replica.parts.leadership.term).toBeUndefined()
  stack.chronicle.foresee(/schema of a newer release/)

  await schema('0,1,0')
  await waitFor('it to lead', () => stack.replica.leads)
  expect((await stack.exec(id, 'true')).status).toBe(200)
})

test('a leader ends with the commit of a migration that it may not serve with', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  const { leadership } = stack.replica.parts
  const term = leadership.term!
  await stack.database.rows(`update leadership set serves_from = '{99,0,0}'`)
  await expect(leadership.transaction((tx) => tx.query('select 1'))).rejects.toMatchObject({ status: 503 })
  expect(term.signal.aborted).toBe(true)
  stack.chronicle.foresee(/schema of a newer release/)
})

test('a leader that stops in order hands over at once: the other leads long before a lease could run out', async () => {
  await using stack = await Stack.start({ controlPlane: { leadershipLeaseMs: 30_000 } })
  const second = await stack.addReplica()
  const before = stack.replica.parts.leadership.term!.epoch
  await stack.replica.stop()
  await waitFor('the other to lead', () => second.leads)
  expect(second.parts.leadership.term!.epoch).toBe(before + 1)
  const made = await send(`${second.url}/v1/desktops`, 'POST', { key: stack.org.key, body: { tier: 'small' } })
  expect(made.status).toBe(201)
})

test('a leader whose session is gone is followed by the other, which goes on with its operations', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  await stack.remember(id, 'led')
  const second = await stack.addReplica()
  await stack.linked(stack.host)
  const release = stack.host.driver.faults.hang('save')
  const operation = await stack.begin(id, 'hibernate')
  await waitFor('the save', () => stack.host.failpoints.hits.includes('hibernate.before-save'))
  await stack.replica.stop()
  await waitFor('the other to lead', () => second.leads)
  release()
  const settled = await waitFor('the operation to settle there', async () => {
    const { json } = await send(`${second.url}/v1/operations/${operation.id}`, 'GET', { key: stack.org.key })
    return json.settled_at !== null && json
  })
  expect(settled).toMatchObject({ state: 'succeeded' })
  await stack.replica.start()
})

test('a replica that does not lead stops as readily as one that does', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  const second = await stack.addReplica()
  const { epoch } = stack.replica.parts.leadership.term!
  await waitFor('it to know the leader', () => second.parts.leadership.leaderKnown)
  await second.stop()
  for (let early = 0; early < 5; early++) {
    await second.start()
    await second.stop()
  }
  expect(stack.replica.parts.leadership.term?.epoch).toBe(epoch)
})

test('a fenced leader commits nothing: once another epoch has begun, its mutations are 503 and leave no trace', async () => {
  await using stack = await Stack.start({ controlPlane: { leadershipLeaseMs: 30_000 } })
  const { id } = await stack.desktop()
  const before = await stack.see(id)
  await stack.database.rows(
    `update leadership set epoch = epoch + 1, replica_id = $1, expires_at = now() + interval '1 minute'`,
    [newId()],
  )
  for (const [path, body] of [
    ['/v1/desktops', { tier: 'small' }],
    [`/v1/desktops/${id}/wake`, {}],
    [`/v1/desktops/${id}/destroy`, {}],
  ] as const) {
    const answer = await stack.api('POST', path, { body })
    expect([path, answer.status, answer.json.code]).toEqual([path, 503, 'not_leader'])
  }
  expect(await stack.see(id)).toEqual(before)
  expect(await stack.database.rows('select 1 from operations')).toEqual([])
  expect(await stack.database.rows('select 1 from desktops')).toHaveLength(1)
  expect(stack.chronicle.find(/no longer leading/)).toMatchObject([{ why: 'fenced' }])
  await stack.database.rows(`update leadership set expires_at = '-infinity'`)
})

test.each(['wake.run.before', 'wake.run.after', 'wake.settle.before'])(
  'a leader that is fenced at "%s" leaves the operation to its successor, which ends it once',
  async (point) => {
    await using stack = await Stack.start()
    const { id } = await stack.desktop()
    stack.failpoints.set(point, async () => {
      stack.failpoints.set(point, undefined)
      await stack.database.rows(`update leadership set epoch = epoch + 1, expires_at = '-infinity'`)
    })
    const operation = await stack.begin(id, 'wake')
    expect(await stack.settled(operation.id)).toMatchObject({ state: 'succeeded', result: { generation: 1 } })
    await stack.settle()
    expect(await stack.see(id)).toMatchObject({ state: 'awake', generation: 1 })
    expect(await stack.inventory()).toHaveLength(1)
  },
)

test('requests sent to two replicas while the lead goes to and fro make each thing once', async () => {
  await using stack = await Stack.start()
  const second = await stack.addReplica()
  const names = Array.from({ length: 12 }, (_, i) => `k${i}`)
  const moving = (async () => {
    for (let turn = 0; turn < 3; turn++) {
      await waitFor('a leader', () => stack.replica.leads || second.leads)
      await stack.database.endSessions('dormouse-leadership')
    }
  })()
  const made = await Promise.all(
    names.map((name) =>
      waitFor(`a desktop for ${name}`, async () => {
        for (const { url } of stack.replicas) {
          const wish = { key: stack.org.key, body: { tier: 'small' }, headers: { 'idempotency-key': name } }
          const answer = await send(`${url}/v1/desktops`, 'POST', wish)
          expect([200, 201, 503]).toContain(answer.status)
          if (answer.status !== 503) return answer.json.id as string
        }
        return undefined
      }),
    ),
  )
  await moving
  expect(new Set(made).size).toBe(names.length)
  expect(await stack.database.rows('select 1 from desktops')).toHaveLength(names.length)
})
