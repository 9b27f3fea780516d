// Guarantee: an operation is polled once for all requests that wait for it, and every wait ends.
import type pg from 'pg'
import { expect, test } from 'vitest'
import type { Db } from '../db/pool.ts'
import type { Follower } from '../events/feed.ts'
import type { EventRow } from '../events/store.ts'
import type { OperationRow } from './store.ts'
import { Waiters } from './waiters.ts'

const operation = (state: OperationRow['state']) => ({ id: 'one', state }) as OperationRow
const running = operation('running')
const succeeded = operation('succeeded')
const stays = new AbortController().signal

/** A database with scripted answers, one for each read. */
function database(look: (count: number) => Promise<OperationRow>) {
  const seen = { looks: 0, atOnce: 0 }
  let underWay = 0
  const query = async () => {
    seen.atOnce = Math.max(seen.atOnce, ++underWay)
    const row = await look(++seen.looks).finally(() => underWay--)
    return { rows: [row] } as unknown as pg.QueryResult
  }
  return { seen, db: { query } as unknown as Db }
}

/** A log without output. */
const silent = { follow: () => () => undefined }

const crowd = (waiters: Waiters, count: number) =>
  Array.from({ length: count }, () => waiters.wait(running, stays).then(({ state }) => state))

test('two hundred waits for an operation that settles on another replica cost one read at a time', async () => {
  const { seen, db } = database(async (count) => (count < 5 ? running : succeeded))
  const waiters = new Waiters({ db, events: silent, capMs: 60_000, pollMs: 1 })
  expect(new Set(await Promise.all(crowd(waiters, 200)))).toEqual(new Set(['succeeded']))
  expect(seen).toEqual({ looks: 5, atOnce: 1 })
  expect(waiters.count).toBe(0)
})

test('one that settles here resolves every wait at once, without another read', async () => {
  const { seen, db } = database(async () => running)
  const waiters = new Waiters({ db, events: silent, capMs: 60_000, pollMs: 60_000 })
  const all = Promise.all(crowd(waiters, 200))
  waiters.settled(succeeded)
  expect(new Set(await all)).toEqual(new Set(['succeeded']))
  expect(seen.looks).toBeLessThanOrEqual(2)
})

test('one that runs here costs no read while it runs, and one once it has left unsettled', async () => {
  const { seen, db } = database(async () => succeeded)
  const waiters = new Waiters({ db, events: silent, capMs: 60_000, pollMs: 60_000 })
  const all = Promise.all([waiters.wait(running, stays, true), waiters.wait(running, stays, true)])
  expect(seen.looks).toBe(0)
  waiters.left('one')
  expect(await all).toEqual([succeeded, succeeded])
  expect(seen.looks).toBe(1)
})

test('a request that joins during a read resolves by one that begins after it', async () => {
  const first = Promise.withResolvers<OperationRow>()
  const { seen, db } = database((count) => (count === 1 ? first.promise : Promise.resolve(succeeded)))
  const waiters = new Waiters({ db, events: silent, capMs: 60_000, pollMs: 60_000 })
  const all = Promise.all(crowd(waiters, 3))
  first.resolve(running)
  expect(await all).toEqual(['succeeded', 'succeeded', 'succeeded'])
  expect(seen.looks).toBe(2)
})

test('the cap, a disconnect and a stop answer what is known; an error of the query is thrown', async () => {
  const { db } = database(async () => running)
  expect(await new Waiters({ db, events: silent, capMs: 1, pollMs: 60_000 }).wait(running, stays)).toBe(running)
  const waiters = new Waiters({ db, events: silent, capMs: 60_000, pollMs: 60_000 })
  const gone = new AbortController()
  const [left, released] = [waiters.wait(running, gone.signal), waiters.wait(running, stays)]
  gone.abort()
  expect(await left).toBe(running)
  waiters.release()
  expect(await released).toBe(running)
  const broken = new Waiters({
    db: database(() => Promise.reject(new Error('no such column'))).db,
    events: silent,
    capMs: 60_000,
  })
  await expect(broken.wait(running, stays)).rejects.toThrow('no such column')
})

test('an unavailable database delays the answer and fails no wait', async () => {
  const away = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' })
  const { db } = database(async (count) => (count < 3 ? Promise.reject(away) : succeeded))
  expect(await new Waiters({ db, events: silent, capMs: 60_000, pollMs: 1 }).wait(running, stays)).toBe(succeeded)
})

test('one that settles on another replica is read when the log of events says so', async () => {
  let [isSettled, follower, followers] = [false, undefined as Follower | undefined, 0]
  const { seen, db } = database(async () => (isSettled ? succeeded : running))
  const events = {
    follow: (given: Follower) => {
      follower = given
      followers++
      return () => followers--
    },
  }
  const waiters = new Waiters({ db, events, capMs: 60_000, pollMs: 60_000 })
  const all = Promise.all(crowd(waiters, 200))
  await expect.poll(() => seen.looks).toBe(1)
  isSettled = true
  const event = { type: 'operation.succeeded', data: { operation_id: 'one' } } as unknown as EventRow
  follower?.saw([{ ...event, data: { operation_id: 'other' } }, event])
  expect(new Set(await all)).toEqual(new Set(['succeeded']))
  expect([seen.atOnce, followers]).toEqual([1, 0])
})
