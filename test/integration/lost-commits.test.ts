// Guarantee: what was committed counts, whoever never learnt of it: the request that asked is told the truth or may be sent
// again, and work that a lost answer overtook goes no step further.
import { expect, inject, test } from 'vitest'
import { Stack } from '../stack.ts'
import { LossyDatabase } from './parts/lossy-database.ts'

async function stackBehind() {
  const lossy = await LossyDatabase.start(inject('databaseUrl'))
  const stack = await Stack.start({ databaseServer: lossy.url })
  const dispose = async () => {
    await stack[Symbol.asyncDispose]()
    await lossy[Symbol.asyncDispose]()
  }
  return { lossy, stack, [Symbol.asyncDispose]: dispose }
}

/** A wake that stands at that point, while a destroy whose acceptance had no answer is carried to its end. */
async function overtakenAt({ stack, lossy }: Awaited<ReturnType<typeof stackBehind>>, point: string) {
  const { id } = await stack.desktop()
  const [there, go] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  stack.failpoints.set(point, async () => {
    there.resolve()
    await go.promise
  })
  const wake = await stack.begin(id, 'wake')
  await there.promise
  const lost = lossy.loseCommitOf(id)
  const destroy = await stack.begin(id, 'destroy')
  await lost
  expect(await stack.settled(destroy.id)).toMatchObject({ state: 'succeeded', result: { cleanup: 'done' } })
  const before = stack.failpoints.hits.length
  go.resolve()
  await stack.settle()
  stack.failpoints.set(point, undefined)
  expect(await stack.operation(wake.id)).toMatchObject({ state: 'failed', error: 'superseded by destroy' })
  return { id, reached: stack.failpoints.hits.slice(before) }
}

test.concurrent('a destroy whose acceptance was read back overtakes a wake as any other: it takes no room, and begins no further step', async () => {
  await using on = await stackBehind()
  const early = await overtakenAt(on, 'wake.place.before')
  expect(await on.stack.held(early.id)).toBeUndefined()
  expect(await on.stack.see(early.id)).toMatchObject({ state: 'destroyed', host_id: null })
  const late = await overtakenAt(on, 'wake.place.after')
  expect(late.reached).toEqual([])
  expect(await on.stack.held(late.id)).toBeUndefined()
  expect(await on.stack.inventory()).toEqual([])
})

test.concurrent('a request whose transaction was lost before its commit may be sent again, also without a key: nothing was changed', async () => {
  await using on = await stackBehind()
  const { stack, lossy } = on
  const lost = lossy.loseBeforeCommitOf('74019')
  const [answer] = await Promise.all([
    stack.api('POST', '/v1/desktops', { body: { tier: 'small', idle_timeout_secs: 74_019 } }),
    lost,
  ])
  expect([answer.status, answer.json.code]).toEqual([503, 'database_unavailable'])
  expect(await stack.database.rows('select 1 from desktops')).toEqual([])
})

test.concurrent('where the database dies at a commit and stays away, a request with a key may be sent again, and one without is told 500', async () => {
  await using on = await stackBehind()
  const { stack, lossy } = on
  stack.chronicle.foresee(/./)
  const create = (idle_timeout_secs: number, headers = {}) =>
    stack.api('POST', '/v1/desktops', { body: { tier: 'small', idle_timeout_secs }, headers })
  const keyed = { 'idempotency-key': 'one' }
  const died = lossy.dieAtCommitsOf(['74017', '74018'])
  const [with_, without] = await Promise.all([create(74_017, keyed), create(74_018), died])
  expect([with_.status, with_.json.code]).toEqual([503, 'database_unavailable'])
  expect(with_.headers['retry-after']).toBeDefined()
  expect([without.status, without.json.code]).toEqual([500, 'internal'])
  lossy.back()
  await stack.replica.leading()
  const again = await create(74_017, keyed)
  expect([again.status, again.headers['idempotency-replayed']]).toEqual([200, 'true'])
  expect(await stack.database.rows('select 1 from desktops')).toHaveLength(2)
})

test.concurrent('an operator whose act may have been done is told to look before it is sent again', async () => {
  await using on = await stackBehind()
  const { stack, lossy } = on
  stack.chronicle.foresee(/the outcome of an operator’s change is unknown/)
  const key = await stack.replica.parts.principals.createOperatorKey('ops')
  const lost = lossy.loseCommitOf('an org of 74020')
  const [answer] = await Promise.all([
    stack.api('POST', '/admin/v1/orgs', { key, body: { name: 'an org of 74020' } }),
    lost,
  ])
  expect([answer.status, answer.json.detail]).toEqual([500, expect.stringMatching(/check whether the change was made/)])
  expect(await stack.database.rows(`select 1 from organisations where name = 'an org of 74020'`)).toHaveLength(1)
})
