// `node test/bench/fence.ts`: what the fence of leadership costs a transaction: 16 writers, each on a row of its own, with
// and without the `for key share` that all of them take on one row, in turn on one Postgres. Figures, no verdicts.
import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { migrate } from '@dormouse/control-plane/db/migrate.ts'
import { openPool, transaction } from '@dormouse/control-plane/db/pool.ts'
import { fenceStatement } from '@dormouse/control-plane/leadership/store.ts'
import { createLog } from '@dormouse/process'
import { startPostgres } from '../../scripts/ground/postgres.ts'

const writers = 16
const secondsEach = 4
const turns = 3

const folder = mkdtempSync(join(tmpdir(), 'dormouse-fence-'))
const place = { dataDir: join(folder, 'pg'), runtimeDir: folder }
const postgres = await startPostgres({ ...place, say: () => undefined, durable: true, endsWithUs: true })
const pool = openPool(postgres.url, writers + 2, () => undefined)
await migrate({ databaseUrl: postgres.url, log: createLog({ name: 'fence', level: 'warn' }) })
const replica = randomUUID()
await pool.query(`update leadership set epoch = 1, replica_id = $1, expires_at = 'infinity'`, [replica])
await pool.query('create table written (writer int primary key, n bigint not null)')
await pool.query('insert into written select i, 0 from generate_series(1, $1) i', [writers])

/** Transactions per second of all writers together. A renewal comes by as often as in real life. */
async function rate(begin: string): Promise<number> {
  const ends = performance.now() + secondsEach * 1_000
  let done = 0
  const renewing = setInterval(
    () => void pool.query(`update leadership set expires_at = 'infinity' where epoch = 1`),
    750,
  )
  const write = async (writer: number) => {
    for (; performance.now() < ends; done++)
      await transaction(
        pool,
        (tx) => tx.query({ name: 'write', text: 'update written set n = n + 1 where writer = $1', values: [writer] }),
        begin,
      )
  }
  await Promise.all(Array.from({ length: writers }, (_, writer) => write(writer + 1)))
  clearInterval(renewing)
  return Math.round(done / secondsEach)
}

const median = (all: number[]) => all.toSorted((a, b) => a - b)[Math.floor(all.length / 2)]!
const rates: { bare: number[]; fenced: number[] } = { bare: [], fenced: [] }
for (let turn = 0; turn < turns; turn++) {
  rates.bare.push(await rate('begin'))
  rates.fenced.push(await rate(fenceStatement(1, replica)))
}
await pool.end()
await postgres.stop()
rmSync(folder, { recursive: true, force: true })
const [bare, fenced] = [median(rates.bare), median(rates.fenced)]
console.table({
  'transactions per second, 16 writers': { bare, fenced, ratio: Math.round((fenced / bare) * 100) / 100 },
})
