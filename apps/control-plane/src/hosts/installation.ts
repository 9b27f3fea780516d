// The installation's id. It is part of every name on a host, so that two installations never touch each other's desktops.
import type { Db } from '../db/pool.ts'

export async function installationId(db: Db): Promise<string> {
  const { rows } = await db.query<{ id: string }>('select id from installation')
  return rows[0]!.id
}

/** No idle time before now counts. */
export async function restartIdleTime(db: Db): Promise<void> {
  await db.query('update installation set idle_from = clock_timestamp()')
}
