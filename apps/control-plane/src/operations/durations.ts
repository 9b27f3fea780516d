// How long operations took lately, for estimates.
import type { Db } from '../db/pool.ts'

/** Undefined if no such operation succeeded lately. */
export interface Durations {
  /** The duration of moves of desktops that are awake, and of hibernations, by the memory of the desktop. */
  liveMoveSecsPerGiB: number | undefined
  hibernateSecsPerGiB: number | undefined
  /** The duration of a move of a desktop that sleeps. */
  coldMoveSecs: number | undefined
}

/** Operations that are looked at, the newest first. */
const lately = 5_000

export async function durationsLately(db: Db): Promise<Durations> {
  const { rows } = await db.query<{ kind: string; awake: boolean; secs: number; gib: number; count: number }>(
    `select kind, awake, sum(secs)::float8 as secs, sum(gib)::float8 as gib, count(*)::int as count from (
       select kind, state, input->>'from' = 'awake' as awake, extract(epoch from settled_at - created_at) as secs,
         (input->'spec'->>'memoryMiB')::numeric / 1024 as gib, result->>'moved' as moved
       from operations order by id desc limit ${lately}) recent
     where state = 'succeeded' and kind in ('move', 'hibernate') and moved is distinct from 'hibernated' and gib > 0
     group by kind, awake`,
  )
  const of = (kind: string, awake: boolean) => rows.find((row) => row.kind === kind && row.awake === awake)
  const [live, saved, cold] = [of('move', true), of('hibernate', true), of('move', false)]
  return {
    liveMoveSecsPerGiB: live && live.secs / live.gib,
    hibernateSecsPerGiB: saved && saved.secs / saved.gib,
    coldMoveSecs: cold && cold.secs / cold.count,
  }
}
