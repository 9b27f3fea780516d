// The tables of what desktops hold on hosts: `reservations` where they are, `arrivals` where they move to.

import { together } from '@dormouse/process'
import { atLeastOne } from '../db/guards.ts'
import type { Db } from '../db/pool.ts'
import { lent, lockPlacements, type PlacementRequest, silentAfterMs } from './store.ts'

/** Stores what the desktop reserves on the host; replaces its earlier reservation. */
export async function reserve(db: Db, hostId: string, request: PlacementRequest): Promise<void> {
  await db.query({
    name: 'reservations-put',
    text: `insert into reservations (desktop_id, host_id, vcpus, memory_mib, disk_gib) values ($1, $2, $3, $4, $5)
           on conflict (desktop_id) do update set host_id = excluded.host_id, vcpus = excluded.vcpus,
             memory_mib = excluded.memory_mib, disk_gib = excluded.disk_gib`,
    values: [request.desktopId, hostId, request.vcpus, request.memoryMiB, request.diskGiB],
  })
}

/**
 * The same if the host is healthy, not cordoned, and has that much memory and processors free; fails as a guard otherwise. Its
 * conditions are those of `requireHost`, and a desktop on a cordoned host wakes elsewhere if it can. Send it behind
 * `lockPlacements`.
 */
export async function reserveWhereFree(
  db: Db,
  hostId: string,
  request: PlacementRequest,
  vcpusPerProcessor: number,
): Promise<void> {
  await db.query({
    name: 'reservations-put-where-free',
    text: `with put as (
             insert into reservations (desktop_id, host_id, vcpus, memory_mib, disk_gib)
             select $1, h.id, $3::int, $4::int, $5::int
             from hosts h left join held r on r.host_id = h.id and r.desktop_id <> $1
             where h.id = $2 and h.removed_at is null and h.lost_at is null and h.ailment is null
               and h.cordoned_at is null
               and h.last_heartbeat_at >= now() - interval '${silentAfterMs} milliseconds'
             group by h.id
             having h.memory_mib - coalesce(sum(r.memory_mib), 0) >= $4::int
               and ${lent('$6')} - coalesce(sum(r.vcpus), 0) >= $3::int and h.disk_gib >= coalesce(sum(r.disk_gib), 0)
             on conflict (desktop_id) do update set host_id = excluded.host_id, vcpus = excluded.vcpus,
               memory_mib = excluded.memory_mib, disk_gib = excluded.disk_gib
             returning 1)
           select ${atLeastOne('put')}`,
    values: [request.desktopId, hostId, request.vcpus, request.memoryMiB, request.diskGiB, vcpusPerProcessor],
  })
}

/** Stores what the desktop will hold on the host that it moves to; replaces what an earlier move has left. */
export async function reserveArrival(db: Db, hostId: string, request: PlacementRequest): Promise<void> {
  await db.query(
    `insert into arrivals (desktop_id, operation_id, host_id, vcpus, memory_mib, disk_gib) values ($1, $2, $3, $4, $5, $6)
     on conflict (desktop_id) do update set operation_id = excluded.operation_id, host_id = excluded.host_id,
       vcpus = excluded.vcpus, memory_mib = excluded.memory_mib, disk_gib = excluded.disk_gib`,
    [request.desktopId, request.leaving?.operationId, hostId, request.vcpus, request.memoryMiB, request.diskGiB],
  )
}

/**
 * The move is decided: what the desktop held on the old host is free, and it holds what was reserved on the new one. False if
 * the new host was removed or lost meanwhile, with what was reserved there.
 */
export async function arrive(db: Db, desktopId: string, hostId: string): Promise<boolean> {
  await lockPlacements(db, hostId)
  const { rowCount } = await db.query(
    `with arrived as (delete from arrivals where desktop_id = $1 and host_id = $2 returning *)
     insert into reservations (desktop_id, host_id, vcpus, memory_mib, disk_gib)
     select desktop_id, host_id, vcpus, memory_mib, disk_gib from arrived
     on conflict (desktop_id) do update set host_id = excluded.host_id, vcpus = excluded.vcpus,
       memory_mib = excluded.memory_mib, disk_gib = excluded.disk_gib`,
    [desktopId, hostId],
  )
  return rowCount === 1
}

/** The move was undone. */
export async function dropArrival(db: Db, desktopId: string): Promise<void> {
  await db.query('delete from arrivals where desktop_id = $1', [desktopId])
}

/** Deletes what is reserved for moves that have settled otherwise, as under a leader of an earlier release; returns how many. */
export async function pruneArrivals(db: Db): Promise<number> {
  const { rowCount } = await db.query(
    `delete from arrivals a where not exists (
       select 1 from operations o where o.id = a.operation_id and o.state in ('pending', 'running'))`,
  )
  return rowCount ?? 0
}

/** How many desktops are on their way to the host. */
export async function arrivingAt(db: Db, hostId: string): Promise<number> {
  const { rows } = await db.query<{ count: number }>('select count(*)::int as count from arrivals where host_id = $1', [
    hostId,
  ])
  return rows[0]!.count
}

/** The desktop is asleep: it keeps only its disk reserved, with the size that it was found to have if that is given. */
export async function releaseMemory(db: Db, desktopId: string, diskGiB?: number): Promise<void> {
  await db.query({
    name: 'reservations-sleep',
    text: 'update reservations set vcpus = 0, memory_mib = 0, disk_gib = coalesce($2, disk_gib) where desktop_id = $1',
    values: [desktopId, diskGiB ?? null],
  })
}

/** The desktop has nothing on its host: deletes its reservation. */
export async function releaseAll(db: Db, desktopId: string): Promise<void> {
  await db.query({
    name: 'reservations-and-arrivals-drop',
    text: 'with left_behind as (delete from arrivals where desktop_id = $1) delete from reservations where desktop_id = $1',
    values: [desktopId],
  })
}

/** Deletes all reservations on a removed host, and those of its desktops on the hosts that they were moving to. */
export async function releaseHost(db: Db, id: string, desktopIds: string[]): Promise<void> {
  await together([
    db.query('delete from reservations where host_id = $1', [id]),
    db.query('delete from arrivals where host_id = $1 or desktop_id = any($2)', [id, desktopIds]),
  ])
}
