import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'
import type { ApiAnswer } from './parts/api.ts'

const keyed = (key: string, body: object = { tier: 'small' }) => ({ headers: { 'idempotency-key': key }, body })

/** Sends a request with a key again after a 503, as any client does. On a busy machine the database may not answer in time. */
const answered = (send: () => Promise<ApiAnswer>): Promise<ApiAnswer> =>
  waitFor('an answer that is not 503', async () => {
    const answer = await send()
    return answer.status !== 503 && answer
  })

test('twenty concurrent creates with one key make one desktop: one answers 201, the others 200 and that they are replays', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  const answers = await Promise.all(
    Array.from({ length: 20 }, () => answered(() => stack.api('POST', '/v1/desktops', keyed('one key')))),
  )
  expect(answers.map(({ status }) => status).sort()).toEqual([...Array(19).fill(200), 201])
  expect(new Set(answers.map(({ json }) => json.id)).size).toBe(1)
  for (const { status, headers } of answers)
    expect(headers['idempotency-replayed']).toBe(status === 200 ? 'true' : undefined)
  expect((await stack.api('GET', '/v1/desktops')).json.desktops).toHaveLength(1)
})

test('a create key belongs to its organisation, and lives as long as the record, tombstone included', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  const other = await stack.otherOrg
  const mine = await stack.api('POST', '/v1/desktops', keyed('same'))
  const theirs = await stack.api('POST', '/v1/desktops', { ...keyed('same'), key: other.key })
  expect([mine.status, theirs.status]).toEqual([201, 201])
  expect(theirs.json.id).not.toBe(mine.json.id)
  await stack.ask(mine.json.id, 'destroy')
  const again = await stack.api('POST', '/v1/desktops', keyed('same'))
  expect([again.status, again.json.id, again.json.state]).toEqual([200, mine.json.id, 'destroyed'])
})

test('the same create key with another body answers the existing desktop, says mismatch, and is counted', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  const first = await stack.api('POST', '/v1/desktops', keyed('k', { tier: 'small', idle_timeout_secs: 5 }))
  const reordered = await stack.api('POST', '/v1/desktops', keyed('k', { idle_timeout_secs: 5, tier: 'small' }))
  const second = await stack.api('POST', '/v1/desktops', keyed('k', { tier: 'large' }))
  expect([reordered.status, reordered.headers['idempotency-replayed']]).toEqual([200, 'true'])
  expect([second.status, second.json.id, second.json.tier]).toEqual([200, first.json.id, 'small'])
  expect(second.headers['idempotency-replayed']).toBe('mismatch')
  expect(await stack.metrics()).toMatch(/^dormouse_idempotency_mismatches_total 1$/m)
})

test('a mutation key is one per desktop whatever the verb, and independent on two desktops', async () => {
  await using stack = await Stack.start()
  const [a, b] = [await stack.desktop(), await stack.desktop()]
  const wish = { headers: { 'idempotency-key': 'once' } }
  const woken = await stack.api('POST', `/v1/desktops/${a.id}/wake?wait=true`, wish)
  const asHibernate = await stack.api('POST', `/v1/desktops/${a.id}/hibernate`, wish)
  expect([asHibernate.status, asHibernate.json.id, asHibernate.json.kind]).toEqual([200, woken.json.id, 'wake'])
  expect(asHibernate.headers['idempotency-replayed']).toBe('mismatch')
  expect((await stack.see(a.id)).state).toBe('awake')
  const other = await stack.api('POST', `/v1/desktops/${b.id}/wake?wait=true`, wish)
  expect([other.status, other.headers['idempotency-replayed']]).toEqual([200, undefined])
  expect(other.json.id).not.toBe(woken.json.id)
})

test('twenty wakes at once with one key are one operation; twenty without a key are one operation and nineteen 409', async () => {
  await using stack = await Stack.start()
  const [a, b] = [await stack.desktop(), await stack.desktop()]
  const wish = { headers: { 'idempotency-key': 'w' } }
  const wake = () => stack.api('POST', `/v1/desktops/${a.id}/wake`, wish)
  const same = await Promise.all(Array.from({ length: 20 }, () => answered(wake)))
  expect(new Set(same.map(({ json }) => json.id)).size).toBe(1)
  expect(same.every(({ status }) => status === 202 || status === 200)).toBe(true)
  const free = await Promise.all(Array.from({ length: 20 }, () => stack.api('POST', `/v1/desktops/${b.id}/wake`)))
  expect(free.filter(({ status }) => status === 202)).toHaveLength(1)
  expect(free.filter(({ status, json }) => status === 409 && json.code === 'wrong_state')).toHaveLength(19)
  await stack.settle()
  expect((await stack.see(a.id)).generation).toBe(1)
  expect((await stack.see(b.id)).generation).toBe(1)
})

test('a replay comes before generation and state: a key used once answers its operation whatever happened since', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop()
  const wish = { headers: { 'idempotency-key': 'w' }, body: { expected_generation: 0 } }
  const first = await stack.api('POST', `/v1/desktops/${id}/wake?wait=true`, wish)
  const again = await stack.api('POST', `/v1/desktops/${id}/wake?wait=true`, wish)
  expect([again.status, again.json.id, again.headers['idempotency-replayed']]).toEqual([200, first.json.id, 'true'])
})

test('a stale expected_generation is 409 in every verb, before the state is looked at, and changes nothing', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  for (const verb of ['wake', 'hibernate', 'destroy']) {
    for (const expected_generation of [0, 2, Number.MAX_SAFE_INTEGER]) {
      const answer = await stack.api('POST', `/v1/desktops/${id}/${verb}`, { body: { expected_generation } })
      expect([verb, answer.status, answer.json.code]).toEqual([verb, 409, 'stale_generation'])
    }
  }
  expect(await stack.see(id)).toMatchObject({ state: 'awake', generation: 1 })
  const right = await stack.api('POST', `/v1/desktops/${id}/hibernate?wait=true`, { body: { expected_generation: 1 } })
  expect(right.status).toBe(200)
  const omitted = await stack.api('POST', `/v1/desktops/${id}/wake?wait=true`, { body: { expected_generation: null } })
  expect(omitted.status).toBe(200)
})

test('of two wakes that expect the same generation, one is accepted', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop()
  const both = await Promise.all(
    [randomUUID(), randomUUID()].map((key) =>
      stack.api('POST', `/v1/desktops/${id}/wake?wait=true`, { ...keyed(key, { expected_generation: 0 }) }),
    ),
  )
  expect(both.map(({ status }) => status).sort()).toEqual([200, 409])
})
