// The table of hosts.

import { type DesktopSpec, type HostFacts, type HostJson, type ImageRef, refuse } from '@dormouse/contract'
import { together } from '@dormouse/process'
import type { Db } from '../db/pool.ts'
import { isQuarantined } from './quarantine.ts'

export interface HostRow {
  id: string
  name: string
  facts: HostFacts | null
  ailment: string | null
  lastHeartbeatAt: Date | null
  silent: boolean
  lostAt: Date | null
  removedAt: Date | null
  /** Since when its commands are withheld, and the epoch that it reports. */
  withheldAt: Date | null
  withheldEpoch: number | null
  /** Since when it takes no new desktops, and the drain that empties it. */
  cordonedAt: Date | null
  /** Null if that has ended. */
  quarantinedUntil: Date | null
  quarantineReason: string | null
  drainId: string | null
  createdAt: Date
}

/** No heartbeat for this long: unreachable. */
export const silentAfterMs = 15_000

const columns = `id, name, facts, ailment, last_heartbeat_at as "lastHeartbeatAt",
  coalesce(last_heartbeat_at < now() - interval '${silentAfterMs} milliseconds', true) as silent,
  lost_at as "lostAt", removed_at as "removedAt", created_at as "createdAt",
  withheld_at as "withheldAt", withheld_epoch as "withheldEpoch", case when quarantined_until > now() then quarantined_until end as "quarantinedUntil",
  quarantine_reason as "quarantineReason", cordoned_at as "cordonedAt", drain_id as "drainId"`

export async function insert(db: Db, host: { id: string; name: string; publicKey: object }): Promise<void> {
  await db.query('insert into hosts (id, name, public_key) values ($1, $2, $3)', [host.id, host.name, host.publicKey])
}

export interface NamedHost {
  id: string
  name: string
  removedAt: Date | null
  lostAt: Date | null
  /** Its agent may keep warm copies. */
  keepsWarm: boolean
}

/** The hosts that this may mean: the one with this id, otherwise present hosts with this name, otherwise the last removed one. */
export async function findNamed(db: Db, nameOrId: string): Promise<NamedHost[]> {
  const { rows } = await db.query<NamedHost>(
    `select id, name, removed_at as "removedAt", lost_at as "lostAt",
       facts->'warm' is not null as "keepsWarm" from hosts where id::text = lower($1) or name = $1
     order by id::text = lower($1) desc, removed_at desc nulls first limit 100`,
    [nameOrId],
  )
  const [first] = rows
  if (!first || first.id === nameOrId.toLowerCase() || first.removedAt) return rows.slice(0, 1)
  return rows.filter(({ removedAt }) => removedAt === null)
}

/** The 404 of a host, for operators. */
export const unknown = (): never => refuse('not_found', 'there is no such host; `dormouse admin host list` names them')

/**
 * Removes the host for good; returns when, and whether it was removed before. Placements wait for this and then skip the host.
 */
export async function remove(db: Db, id: string): Promise<{ removedAt: Date; before: boolean }> {
  await lockPlacements(db, id)
  const { rowCount } = await db.query('update hosts set removed_at = now() where id = $1 and removed_at is null', [id])
  const { rows } = await db.query<{ removedAt: Date }>('select removed_at as "removedAt" from hosts where id = $1', [
    id,
  ])
  return { removedAt: rows[0]!.removedAt, before: rowCount === 0 }
}

/** Cordons the host, or ends that; false if it was so before. Placements wait for this and then look again. */
export async function setCordoned(db: Db, id: string, cordoned: boolean): Promise<boolean> {
  const { rowCount } = await db.query(
    `update hosts set cordoned_at = case when $2 then now() end
     where id = $1 and removed_at is null and (cordoned_at is not null) <> $2`,
    [id, cordoned],
  )
  return rowCount === 1
}

/** The drain that empties the host now. */
export async function drainOf(db: Db, id: string): Promise<string | undefined> {
  const { rows } = await db.query<{ drainId: string | null }>('select drain_id as "drainId" from hosts where id = $1', [
    id,
  ])
  return rows[0]?.drainId ?? undefined
}

/** Notes the drain that empties the host; null when it has ended. */
export async function setDrain(db: Db, id: string, drainId: string | null): Promise<void> {
  await db.query('update hosts set drain_id = $2 where id = $1', [id, drainId])
}

/** What a host may do. */
export interface Standing {
  withheld: boolean
  lost: boolean
}

export interface Heard {
  id: string
  facts: HostFacts
}

/**
 * Stores what hosts report of themselves; undefined for one that is
 * removed. The rows are locked in the order of their ids: every replica writes the same ones.
 */
export async function heard(db: Db, said: Heard[]): Promise<(Standing | undefined)[]> {
  // If one host has sent two messages, the later one counts.
  const latest = new Map(said.map(({ id, facts }) => [id, facts]))
  const { rows } = await db.query<Standing & { id: string }>({
    name: 'hosts-heard',
    text: `update hosts h set facts = said.facts, processors = (said.facts->>'processors')::float8,
             memory_mib = (said.facts->'capacity'->>'memoryMiB')::int,
             disk_gib = (said.facts->'capacity'->>'diskGiB')::int,
             images = array(select jsonb_array_elements_text(said.facts->'images')), ailment = said.facts->>'ailment',
             ailing_since = case when said.facts->>'ailment' is not null then coalesce(ailing_since, now()) end,
             last_heartbeat_at = now()
           from (select id, given.facts from unnest($1::uuid[], $2::jsonb[]) given (id, facts) join hosts using (id)
                 order by id for no key update of hosts) said
           where h.id = said.id and removed_at is null
           returning h.id, withheld_at is not null as withheld, lost_at is not null as lost`,
    values: [[...latest.keys()], [...latest.values()]],
  })
  const found = new Map(rows.map(({ id, withheld, lost }) => [id, { withheld, lost }]))
  return said.map(({ id }) => found.get(id))
}

/** Uses up the one time that the host's epoch is believed, and allows its commands; false if it was used before. */
export async function believeEpoch(db: Db, id: string): Promise<boolean> {
  const { rowCount } = await db.query(
    `update hosts set epoch_believed_at = now(), withheld_at = null, withheld_epoch = null
     where id = $1 and epoch_believed_at is null`,
    [id],
  )
  return rowCount === 1
}

/** Withholds commands because of the epoch that the host reports; false if they already were because of this epoch. */
export async function withhold(db: Db, id: string, epoch: number): Promise<boolean> {
  const { rowCount } = await db.query(
    `update hosts set withheld_at = coalesce(withheld_at, now()), withheld_epoch = $2
     where id = $1 and withheld_epoch is distinct from $2`,
    [id, epoch],
  )
  return rowCount === 1
}

/** Allows commands to the host again; false if they were not withheld. */
export async function release(db: Db, id: string): Promise<boolean> {
  const { rowCount } = await db.query(
    'update hosts set withheld_at = null, withheld_epoch = null where id = $1 and withheld_at is not null',
    [id],
  )
  return rowCount === 1
}

/** The epoch because of which commands are withheld, null if they are not. Locks the row until the transaction ends. */
export async function lockWithheld(db: Db, id: string): Promise<number | null> {
  const { rows } = await db.query<{ epoch: number | null }>(
    'select withheld_epoch as epoch from hosts where id = $1 for update',
    [id],
  )
  return rows[0]?.epoch ?? null
}

/** The host's epoch may be believed once more, and its commands are allowed again. */
export async function trust(db: Db, id: string): Promise<void> {
  await db.query('update hosts set epoch_believed_at = null, withheld_at = null, withheld_epoch = null where id = $1', [
    id,
  ])
}

/** Whether the host, or any host if none is given, sent a heartbeat so recently that it does not count as unreachable yet. */
export async function heardLately(db: Db, hostId: string | null): Promise<boolean> {
  const { rowCount } = await db.query(
    `select 1 from hosts where ($1::uuid is null or id = $1) and lost_at is null and removed_at is null
       and last_heartbeat_at > now() - interval '${silentAfterMs} milliseconds' limit 1`,
    [hostId],
  )
  return rowCount !== 0
}

export interface PlacementRequest extends Pick<DesktopSpec, 'vcpus' | 'memoryMiB' | 'diskGiB'> {
  desktopId: string
  /** As the caller gave it, or `name@version` if that is registered. */
  image: string
  /** Hosts that it does not go to. */
  not?: readonly string[]
  /** An operator has named this host: it goes there, even if the host is cordoned, or nowhere. */
  only?: string | undefined
  /**
   * It moves: not to the host that it leaves, and to none if it does not fit. `mayRelay`: it may go through the control
   * plane to a host without an address for moves.
   */
  leaving?: { operationId: string; not: string[]; mayRelay?: boolean }
  /** What a host needs to fetch it; undefined if nobody has registered it. */
  registered?: ImageRef | undefined
  /** Its disk, which is on its host already, is to become that large. */
  growsDisk?: boolean
}

/** The one place where processors are overcommitted. */
export const lent = (perProcessor: string) => `floor(h.processors * ${perProcessor}::float8)::int`

/** Processors are shared between desktops; memory and disk are not. */
const held = `coalesce(sum(r.vcpus), 0)::int as "heldVcpus", coalesce(sum(r.memory_mib), 0)::int as "heldMemoryMiB",
  coalesce(sum(r.disk_gib), 0)::int as "heldDiskGiB", count(r.desktop_id)::int as desktops`

export interface Candidate {
  id: string
  name: string
  images: string[]
  digests: HostFacts['imageDigests']
  ailment: string | null
  /** It became unhealthy a moment ago: its hypervisor may be restarting. */
  ailsLately: boolean
  silent: boolean
  /** It takes no new desktops. Those on it go on. */
  cordoned: boolean
  /** Its wakes kept failing: others come first. */
  quarantined: boolean
  /** Whether it lets desktops of other hosts in. */
  letsIn: boolean
  /** Virtual processors that it may allocate. */
  vcpus: number
  memoryMiB: number
  diskGiB: number
  freeDiskGiB: number
  heldVcpus: number
  heldMemoryMiB: number
  heldDiskGiB: number
}

/** The namespace of the advisory locks on hosts: any fixed number that nothing else uses. */
const placementLocks = 7_236_813

/**
 * Waits for other placements on the host, and makes them wait for this transaction. An advisory lock, since the row of the
 * host is written by each heartbeat. Two hosts may share one: that costs time only.
 */
export async function lockPlacements(db: Db, hostId: string): Promise<void> {
  await db.query({
    name: 'hosts-lock-placements',
    text: 'select pg_advisory_xact_lock($1::int, hashtext($2))',
    values: [placementLocks, hostId],
  })
}

/** One host with what other desktops hold, exact until the transaction ends. Empty if the host is lost or removed. */
export async function lockedCandidates(
  db: Db,
  desktopId: string,
  hostId: string,
  vcpusPerProcessor: number,
): Promise<Candidate[]> {
  // Two statements: the snapshot of the second must not be older than the lock.
  const statements = [lockPlacements(db, hostId), candidates(db, desktopId, [hostId], vcpusPerProcessor)] as const
  return (await together(statements))[1]
}

/** Hosts with what other desktops hold, most free memory first. May be outdated at once. */
export async function candidates(
  db: Db,
  desktopId: string,
  hostIds: string[],
  vcpusPerProcessor: number,
): Promise<Candidate[]> {
  const { rows } = await db.query<Candidate>({
    name: 'hosts-candidates',
    text: `select h.id, h.name, h.images, coalesce(h.facts->'imageDigests', '[]') as digests, h.ailment, ${lent('$3')} as vcpus, h.memory_mib as "memoryMiB",
       h.disk_gib as "diskGiB", coalesce((h.facts->>'freeDiskGiB')::int, 0) as "freeDiskGiB",
       coalesce(h.last_heartbeat_at < now() - interval '${silentAfterMs} milliseconds', true) as silent, ${held},
       ${isQuarantined} as quarantined, h.cordoned_at is not null as cordoned, h.facts->>'moveAddress' is not null as "letsIn", h.ailment is not null and h.ailing_since > now() - interval '${silentAfterMs} milliseconds' as "ailsLately"
     from hosts h left join held r on r.host_id = h.id and r.desktop_id <> $2
     where h.id = any($1) and h.removed_at is null and h.lost_at is null
     group by h.id order by h.memory_mib - coalesce(sum(r.memory_mib), 0) desc, h.id`,
    values: [hostIds, desktopId, vcpusPerProcessor],
  })
  return rows
}

export async function isCordoned(db: Db, id: string): Promise<boolean> {
  const { rowCount } = await db.query({
    name: 'hosts-is-cordoned',
    text: 'select 1 from hosts where id = $1 and cordoned_at is not null',
    values: [id],
  })
  return rowCount !== 0
}

export async function list(db: Db, vcpusPerProcessor: number, linked: (id: string) => boolean): Promise<HostJson[]> {
  const { rows } = await db.query<HostRow & Candidate & { desktops: number; processors: number; lentVcpus: number }>(
    `select h.*, ${lent('$1')} as "lentVcpus", ${held} from (select ${columns}, processors, memory_mib as "memoryMiB", disk_gib as "diskGiB", images from hosts) h
     left join held r on r.host_id = h.id
     group by h.id, h.name, h.facts, h.ailment, h."lastHeartbeatAt", h.silent,
       h."lostAt", h."removedAt", h."withheldAt", h."withheldEpoch", h."quarantinedUntil", h."quarantineReason", h."cordonedAt", h."drainId", h."createdAt", h.processors, h."memoryMiB", h."diskGiB", h.images
     order by h."removedAt" is not null, h.id`,
    [vcpusPerProcessor],
  )
  return rows.map((row) => ({
    id: row.id,
    name: row.name,
    state: row.removedAt ? 'removed' : row.lostAt ? 'lost' : row.silent ? 'unreachable' : 'active',
    linked: linked(row.id),
    version: row.facts?.agentVersion ?? null,
    commit: row.facts?.commit ?? null,
    clock_offset_secs: row.facts?.clockOffsetMs === undefined ? null : row.facts.clockOffsetMs / 1_000,
    upgradable: row.facts?.upgradable ?? false,
    withheld:
      row.withheldAt === null ? null : { since: row.withheldAt.toISOString(), epoch: Number(row.withheldEpoch) },
    cordoned: row.cordonedAt !== null,
    quarantine: row.quarantinedUntil && {
      until: row.quarantinedUntil.toISOString(),
      reason: row.quarantineReason ?? '',
    },
    drain_id: row.drainId,
    ailment: row.ailment,
    last_heartbeat_at: row.lastHeartbeatAt?.toISOString() ?? null,
    driver: row.facts?.driver ?? null,
    kvm: row.facts?.kvm ?? null,
    versions: row.facts?.versions ?? {},
    processors: row.facts ? row.processors : null,
    capacity: row.facts ? { vcpus: row.lentVcpus, memory_mib: row.memoryMiB, disk_gib: row.diskGiB } : null,
    reserved: { vcpus: row.heldVcpus, memory_mib: row.heldMemoryMiB, disk_gib: row.heldDiskGiB },
    warm: warmOf(row.facts),
    templates: (row.facts?.templates ?? []).map(({ memoryMiB, ...template }) => ({
      ...template,
      memory_mib: memoryMiB,
    })),
    images: row.images,
    desktops: row.desktops,
    created_at: row.createdAt.toISOString(),
  }))
}

const warmOf = (facts: HostFacts | null): HostJson['warm'] =>
  facts ? { copies: facts.warm.copies, memory_mib: facts.warm.memoryMiB, max_mib: facts.warm.maxMiB } : null
