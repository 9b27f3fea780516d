// Reads which desktops may have something to do by their plan, and notes what is done of it. Decides nothing.
import { type ScheduleAction, scheduleJson } from '@dormouse/contract'
import type { Db } from '../db/pool.ts'
import type { Plan } from './plans.ts'

export interface PlanRow extends Plan {
  id: string
  orgId: string
  /** Whether an event before its end was written within the last hour. */
  isEndNotedLately: boolean
}

/** Those that may be due are read at most so many at a time. */
const window = 2_000

/**
 * Desktops that may be due: the earliest of each organisation, then the second of each, and so on. So none waits for those of
 * another organisation, unless that one has thousands.
 */
export async function dueIds(db: Db, limit: number): Promise<string[]> {
  const { rows } = await db.query<{ id: string }>({
    name: 'desktops-plan-due',
    text: `select id from (
             select id, due_at, row_number() over (partition by org_id order by due_at) as place from (
               select id, org_id, due_at from desktops where due_at <= now() order by due_at limit ${window}
             ) due) placed
           order by place, due_at limit $1`,
    values: [limit],
  })
  return rows.map(({ id }) => id)
}

/** Reads those of these desktops that exist; `locked` until the transaction ends. */
export async function read(db: Db, ids: readonly string[], locked = false): Promise<PlanRow[]> {
  interface Read extends Omit<PlanRow, 'after' | 'schedule'> {
    schedule: unknown
    wakeAfter: Date | null
    hibernateAfter: Date | null
  }
  const { rows } = await db.query<Read>({
    name: locked ? 'desktops-plan-lock' : 'desktops-plan-read',
    text: `select id, org_id as "orgId", state, schedule, wake_after as "wakeAfter", hibernate_after as "hibernateAfter",
             destroy_at as "destroyAt", destroy_soon_noted as "destroySoonNoted",
             coalesce(destroy_soon_at > clock_timestamp() - interval '1 hour', false) as "isEndNotedLately",
             clock_timestamp() as now
           from desktops where id = any($1) ${locked ? 'for update' : ''}`,
    values: [ids],
  })
  return rows.map(({ schedule, wakeAfter, hibernateAfter, ...row }) => ({
    ...row,
    schedule: parsed(schedule),
    after: { wake: wakeAfter, hibernate: hibernateAfter },
  }))
}

/** A schedule of a later release, with what is not known here, is kept and not done. */
const parsed = (stored: unknown) => scheduleJson.nullable().catch(null).parse(stored)

/** Looks at the desktop again at that time; null: when its plan changes. */
export async function lookAgainAt(db: Db, id: string, at: Date | null): Promise<void> {
  await db.query({
    name: 'desktops-plan-look-at',
    text: 'update desktops set due_at = $2 where id = $1',
    values: [id, at],
  })
}

export async function lookAgainIn(db: Db, ids: readonly string[], inMs: number): Promise<void> {
  await db.query({
    name: 'desktops-plan-look-in',
    text: `with free as (select id from desktops where id = any($1) order by id for no key update skip locked)
           update desktops d set due_at = clock_timestamp() + $2 * interval '1 millisecond' from free where free.id = d.id`,
    values: [ids, inMs],
  })
}

/** The schedule's times up to that one are done. The caller has locked the row. */
export async function noteDone(db: Db, id: string, action: ScheduleAction, until: Date): Promise<void> {
  await db.query({
    name: `desktops-plan-done-${action}`,
    text: `update desktops set ${action}_after = $2 where id = $1`,
    values: [id, until],
  })
}

/** A desktop that its schedule found awake: its idle time counts from now on. */
export async function noteStaysAwake(db: Db, id: string): Promise<void> {
  await db.query('update desktops set schedule_woke_at = clock_timestamp() where id = $1', [id])
}

export async function noteEndNoted(db: Db, id: string): Promise<void> {
  await db.query('update desktops set destroy_soon_noted = true, destroy_soon_at = clock_timestamp() where id = $1', [
    id,
  ])
}
