// The partitions of the log: one for each day (UTC), made ahead and dropped when they are too old. Run by the leader.
import type { Log } from '@dormouse/process'
import { type Db, sqlState } from '../db/pool.ts'
import type { Leadership } from '../leadership/leadership.ts'

export interface EventPartitionsOptions {
  leadership: Leadership
  log: Log
  keepDays: number
}

const dayMs = 86_400_000
const daysAhead = 3
/** Every writer waits behind a statement that changes the partitions. If it gets no lock, the next run repeats it. */
const lockTimeout = `set local lock_timeout = '200ms'`
const deleteRows = 5_000

const nameOf = (day: number): string => `events_${new Date(day).toISOString().slice(0, 10).replaceAll('-', '')}`

/** Undefined for a table that is no partition of a day. */
function dayOf(name: string): number | undefined {
  const [, year, month, day] = /^events_(\d{4})(\d\d)(\d\d)$/.exec(name) ?? []
  return year === undefined ? undefined : Date.UTC(Number(year), Number(month) - 1, Number(day))
}

export class EventPartitions {
  readonly #options: EventPartitionsOptions

  constructor(options: EventPartitionsOptions) {
    this.#options = options
  }

  /** Makes what is missing for the next days, and drops what is older than the retention. Idempotent. */
  async maintain(now = Date.now()): Promise<void> {
    const { leadership, log, keepDays } = this.#options
    const names = await leadership.transaction((tx) => partitions(tx))
    const today = Math.floor(now / dayMs) * dayMs
    const wanted = Array.from({ length: daysAhead + 1 }, (_, ahead) => today + ahead * dayMs)
    const missing = wanted.filter((day) => !names.includes(nameOf(day)))
    const old = names.filter((name) => (dayOf(name) ?? today) + dayMs <= now - keepDays * dayMs)
    for (const day of missing) await this.#change(() => leadership.transaction((tx) => make(tx, day)), nameOf(day))
    for (const name of old) await this.#change(() => leadership.transaction((tx) => drop(tx, name)), name)
    const count = await leadership.transaction((tx) => deleteUnplaced(tx, new Date(now - keepDays * dayMs)))
    if (old.length + count > 0) log.info({ partitions: old, rows: count }, 'old events were dropped')
  }

  /** Never throws: one that cannot be changed delays no other. */
  async #change(work: () => Promise<void>, partition: string): Promise<void> {
    try {
      await work()
    } catch (err) {
      // A lock that was not free, or a day of which the partition for unplaced rows already has events: they stay there.
      const isKnown = sqlState(err) === '55P03' || sqlState(err) === '23514'
      this.#options.log[isKnown ? 'info' : 'warn'](
        { err, partition },
        'a partition of the events cannot be changed now',
      )
    }
  }
}

async function partitions(db: Db): Promise<string[]> {
  const { rows } = await db.query<{ name: string }>(
    `select relname as name from pg_inherits join pg_class on pg_class.oid = inhrelid
     where inhparent = 'events'::regclass`,
  )
  return rows.map(({ name }) => name)
}

/** Attaching it blocks no writer of another day. */
async function make(db: Db, day: number): Promise<void> {
  const [name, from, to] = [nameOf(day), new Date(day).toISOString(), new Date(day + dayMs).toISOString()]
  await db.query(lockTimeout)
  await db.query(`create table ${name} (like events including defaults)`)
  await db.query(`alter table events attach partition ${name} for values from ('${from}') to ('${to}')`)
}

async function drop(db: Db, name: string): Promise<void> {
  await db.query(lockTimeout)
  await db.query(`update event_log set dropped = greatest(dropped, (select max(seq) from ${name}))`)
  await db.query(`drop table ${name}`)
}

/** Returns how many rows it deleted. */
async function deleteUnplaced(db: Db, before: Date): Promise<number> {
  const { rows } = await db.query<{ count: number }>(
    `with old as (select seq, at from events_unplaced where at < $1 order by seq limit ${deleteRows}),
     gone as (delete from events_unplaced u using old where u.seq = old.seq and u.at = old.at),
     noted as (update event_log set dropped = greatest(dropped, (select max(seq) from old)) where exists (select 1 from old))
     select count(*)::int as count from old`,
    [before],
  )
  return rows[0]!.count
}
