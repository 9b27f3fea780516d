// The table of generations: one row for each wake of a desktop.
import type { Db } from '../db/pool.ts'

/**
 * Begins a restore: no older incarnation of the desktop can run any more. Its state stays. The caller has locked the row and
 * checked its state.
 */
export async function beginRestore(db: Db, id: string, generationId: string): Promise<void> {
  await db.query(
    `with raised as (
       update desktops set turn = turn + 1, generation = generation + 1, current_generation_id = $2, updated_at = clock_timestamp()
       where id = $1 returning id, generation),
     begun as (
       insert into generations (id, desktop_id, generation) select $2, id, generation from raised)
     update generations g set superseded_at = clock_timestamp() from raised
      where g.desktop_id = raised.id and g.generation = raised.generation - 1`,
    [id, generationId],
  )
}

/** Records the host on which the generation runs, and since when. */
export async function startGeneration(db: Db, id: string, hostId: string): Promise<void> {
  await db.query({
    name: 'generations-start',
    text: 'update generations set host_id = $2, started_at = coalesce(started_at, clock_timestamp()) where id = $1',
    values: [id, hostId],
  })
}

/** Ends a generation once; the first reason is kept. */
export async function endGeneration(db: Db, id: string, reason: string): Promise<void> {
  await db.query({
    name: 'generations-end',
    text: 'update generations set ended_at = clock_timestamp(), end_reason = $2 where id = $1 and ended_at is null',
    values: [id, reason],
  })
}

/** Ends the open generations of these desktops. */
export async function endGenerationsOf(db: Db, desktopIds: string[], reason: string): Promise<void> {
  await db.query(
    `update generations g set ended_at = clock_timestamp(), end_reason = $2
     from desktops d where d.id = any($1) and g.id = d.current_generation_id and g.ended_at is null`,
    [desktopIds, reason],
  )
}

/** Deletes generations that were superseded long ago, so never a desktop's latest; returns how many. */
export async function pruneGenerations(db: Db, days: number): Promise<number> {
  const { rowCount } = await db.query(
    `delete from generations where id in (
       select id from generations where superseded_at < now() - $1 * interval '1 day'
       order by superseded_at limit 5000)`,
    [days],
  )
  return rowCount ?? 0
}
