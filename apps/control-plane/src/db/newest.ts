// Limits how many rows of a table belong to the same thing. Knows no table.
import type { Db } from './pool.ts'

interface Bounded {
  table: string
  /** The column that names the thing. */
  of: string
  most: number
  /** SQL: which rows may be deleted. */
  settled: string
}

const deletedAtOnce = 5_000

/** Deletes the oldest rows of each thing that has too many; returns how many it deleted. Repeat it until that is 0. */
export async function keepNewest(db: Db, { table, of, most, settled }: Bounded): Promise<number> {
  const { rowCount } = await db.query(
    `with crowded as (select ${of} as name from ${table} group by 1 having count(*) > ${most}),
     old as (
       select surplus.ctid from crowded, lateral (
         select ctid, ${table}.* from ${table} where ${of} = crowded.name order by created_at desc offset ${most}) surplus
       where ${settled} limit ${deletedAtOnce})
     delete from ${table} where ctid in (select ctid from old)`,
  )
  return rowCount ?? 0
}
