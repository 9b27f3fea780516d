// Guarantee: a transaction takes effect as a whole or not at all, however many of its statements share a round trip, and its
// connection can be used afterwards.
import { openPool, type Pool } from '@dormouse/control-plane/db/pool.ts'
import { transaction, transactionAtOnce } from '@dormouse/control-plane/db/transactions.ts'
import { test as base, inject } from 'vitest'

/** One connection, and a table of its own. */
const test = base.extend<{ pool: Pool }>({
  // biome-ignore lint/correctness/noEmptyPattern: vitest reads the names of the fixtures from the pattern.
  pool: async ({}, use) => {
    const pool = openPool(inject('databaseUrl'), 1, () => undefined)
    await pool.query('create temporary table notes (note text primary key)')
    await use(pool)
    await pool.end()
  },
})

const note = (text: unknown) => ({ name: 'note', text: 'insert into notes values ($1)', values: [text] })
const broken = { name: 'broken', text: 'select 1 / $1::int', values: [0] }
const other = { name: 'other', text: 'insert into notes values ($1 || $2)', values: ['an', 'other'] }
const notes = async (pool: Pool) =>
  (await pool.query('select note from notes order by note')).rows.map((row) => row.note)

test('statements behind a begin that fails take no effect', async ({ pool, expect }) => {
  const begin = { name: 'begin-wrong', text: 'begin isolation level wrong' }
  const failing = transaction(pool, (tx) => tx.query(note('outside')), { begin })
  await expect(failing).rejects.toThrow(/syntax error/)
  expect(await notes(pool)).toEqual([])
})

for (const [name, run] of [
  ['a transaction', transaction],
  ['a transaction at once', transactionAtOnce],
] as const) {
  test(`${name} undoes what stands before and behind a statement that fails`, async ({ pool, expect }) => {
    for (let round = 0; round < 3; round++) {
      const failing = run(pool, (tx) => Promise.all([note('before'), broken, other].map((each) => tx.query(each))))
      await expect(failing).rejects.toThrow(/division by zero/)
      expect(await notes(pool)).toEqual([])
    }
    const values = [1]
    await run(pool, (tx) => Promise.all([note('before'), { ...broken, values }, other].map((each) => tx.query(each))))
    expect(await notes(pool)).toEqual(['another', 'before'])
    expect(pool.totalCount).toBe(1)
  })

  test(`${name} with a value that cannot be written takes no effect`, async ({ pool, expect }) => {
    const circle: unknown[] = []
    circle.push({ circle })
    await pool.query('create table if not exists kept_notes (note text)')
    const failing = run(pool, (tx) =>
      Promise.all([tx.query(`insert into kept_notes values ('one')`), tx.query(note({ circle }))]),
    )
    await expect(failing).rejects.toThrow()
    expect((await pool.query('select note from kept_notes')).rows).toEqual([])
  })

  test(`${name} whose fence fails reports that, and takes no effect`, async ({ pool, expect }) => {
    const failed = (): never => {
      throw new Error('fenced')
    }
    const fence = { statement: broken, failed }
    const failing =
      run === transaction
        ? transaction(pool, (tx) => tx.query(note('one')), { fence })
        : transactionAtOnce(pool, (tx) => tx.query(note('one')), fence)
    await expect(failing).rejects.toThrow('fenced')
    expect(await notes(pool)).toEqual([])
  })
}

test('each statement of a transaction gets its own rows', async ({ pool, expect }) => {
  const rows = await transaction(pool, async (tx) => {
    const first = await Promise.all([
      tx.query('select 1 as a'),
      tx.query({ name: 'two', text: 'select 2 as b, 3 as c' }),
    ])
    const second = await Promise.all([tx.query('select $1::text as d', ['four']), tx.query(note('five'))])
    return [...first, ...second].map((result) => [result.rows, result.rowCount])
  })
  expect(rows).toEqual([
    [[{ a: 1 }], 1],
    [[{ b: 2, c: 3 }], 1],
    [[{ d: 'four' }], 1],
    [[], 1],
  ])
})
