// What a host's agent can do, by its last facts. An agent before a command does not report it.
import type { Db } from '../db/pool.ts'

/** Whether it knows the commands of input and of looking at screens. */
export async function takesInput(db: Db, hostId: string): Promise<boolean> {
  const { rows } = await db.query<{ able: boolean }>(
    `select coalesce((facts->>'input')::boolean, false) as able from hosts where id = $1`,
    [hostId],
  )
  return rows[0]?.able ?? false
}
