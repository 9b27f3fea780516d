// The size of a desktop in the table of desktops.
import type { Db } from '../db/pool.ts'
import type { DesktopRow } from './store.ts'

/** The size that a desktop has on its host. */
export interface FoundSize {
  /** Set if it has the tier now that waited for a boot. */
  tier: Pick<DesktopRow, 'tier' | 'vcpus' | 'memoryMiB'> | null
  diskGiB: number
}

/**
 * The desktop has another size on its host, with the next tier if one is given. A tier that was requested during the wake waits
 * for the next boot, also if it is the one before. The caller has locked the row.
 */
export async function takeSize(db: Db, id: string, { tier, diskGiB }: FoundSize): Promise<void> {
  const [isTier, later] = ['$2::text is not null', 'coalesce(next_tier, tier) <> $2']
  const next = (column: string, own: string) =>
    `${column} = case when not ${isTier} then ${column} when ${later} then coalesce(${column}, ${own}) end`
  await db.query({
    name: 'desktops-take-size',
    text: `update desktops set tier = coalesce($2, tier), vcpus = coalesce($3, vcpus), memory_mib = coalesce($4, memory_mib),
             ${next('next_tier', 'tier')}, ${next('next_vcpus', 'vcpus')}, ${next('next_memory_mib', 'memory_mib')},
             disk_gib = greatest(disk_gib, $5),
             next_disk_gib = case when next_disk_gib > greatest(disk_gib, $5) then next_disk_gib end
           where id = $1`,
    values: [id, tier?.tier ?? null, tier?.vcpus ?? null, tier?.memoryMiB ?? null, diskGiB],
  })
}

/** The desktop has the disk of a copy now. A larger one that it had before comes back at its next boot. The row is locked. */
export async function takeDiskOfCopy(db: Db, id: string, diskGiB: number): Promise<void> {
  await db.query(
    `update desktops set disk_gib = $2, next_disk_gib = nullif(greatest(next_disk_gib, disk_gib), $2)
      where id = $1 and disk_gib <> $2`,
    [id, diskGiB],
  )
}
