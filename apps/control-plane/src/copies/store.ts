// The tables of copies and of their policies, and what a desktop's row has of its copies.
import type { CopiesKept, CopyJson, CopyKind, CopyPolicyJson, DesktopSpec, Labels, MadeCopy } from '@dormouse/contract'
import type { Db } from '../db/pool.ts'
import { timesAsText } from '../db/times-as-text.ts'

/** A desktop that sleeps and was not copied since. */
export interface DueRow {
  id: string
  orgId: string
  hostId: string
  generation: number
  turn: number
  labels: Labels
  spec: DesktopSpec
  madeFrom: string | null
  /** Its newest snapshot in the vault. */
  parent: string | null
}

/** In the order in which they fell asleep. */
export async function due(db: Db, vault: string, afterSecs: number, limit: number): Promise<DueRow[]> {
  const { rows } = await db.query<DueRow>({
    name: 'copies-due',
    text: `select d.id, d.org_id as "orgId", d.host_id as "hostId", d.generation, d.turn, d.labels, d.made_from as "madeFrom",
             jsonb_build_object('vcpus', d.vcpus, 'memoryMiB', d.memory_mib, 'diskGiB', d.disk_gib,
                                'imageVersion', d.image_version) as spec,
             (select snapshot from copies c where c.desktop_id = d.id and c.vault = $1 and c.forgotten_at is null
               order by c.taken_at desc limit 1) as parent
           from desktops d
           where d.state in ('hibernated', 'stopped') and d.copied_turn is distinct from d.turn and d.host_id is not null
             and coalesce(d.copy_after, d.updated_at) <= now()
             and d.updated_at <= now() - $2::float8 * interval '1 second'
           order by coalesce(d.copy_after, d.updated_at) limit $3`,
    values: [vault, afterSecs, limit],
  })
  return rows
}

export async function postpone(db: Db, desktopId: string, turn: number, secs: number): Promise<void> {
  await db.query({
    name: 'copies-postpone',
    text: `update desktops set copy_after = now() + $3::float8 * interval '1 second' where id = $1 and turn = $2`,
    values: [desktopId, turn, secs],
  })
}

/** All of the organisation's desktops are looked at again, by other policies. */
export async function lookAgain(db: Db, orgId: string): Promise<void> {
  await db.query('update desktops set copy_after = null where org_id = $1 and copy_after is not null', [orgId])
}

export interface NewCopy {
  id: string
  vault: string
  desktop: DueRow
  made: MadeCopy
}

/** False if the desktop was destroyed meanwhile: the copy is one to forget then. */
export async function insert(db: Db, { id, vault, desktop, made }: NewCopy): Promise<boolean> {
  const { rowCount } = await db.query({
    name: 'copies-protect',
    text: `update desktops set protected_at = clock_timestamp(), protected_kind = $3, copied_turn = $2, copy_after = null
           where id = $1 and state <> 'destroyed'`,
    values: [desktop.id, desktop.turn, made.kind],
  })
  const isThere = rowCount === 1
  await db.query({
    name: 'copies-insert',
    text: `insert into copies (id, desktop_id, org_id, vault, kind, generation, turn, snapshot, size_bytes, added_bytes, spec,
                               made_from, traits, handoff, forgotten_at)
           values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, case when $15 then null else now() end)`,
    values: [
      ...[id, desktop.id, desktop.orgId, vault, made.kind, desktop.generation, desktop.turn, made.snapshot],
      ...[made.sizeBytes, made.addedBytes, JSON.stringify(desktop.spec), desktop.madeFrom],
      ...[JSON.stringify(made.traits), made.handoff, isThere],
    ],
  })
  return isThere
}

export async function takenOf(db: Db, desktopId: string): Promise<{ id: string; takenAt: Date }[]> {
  const { rows } = await db.query<{ id: string; takenAt: Date }>({
    name: 'copies-taken',
    text: `select id, taken_at as "takenAt" from copies where desktop_id = $1 and forgotten_at is null`,
    values: [desktopId],
  })
  return rows
}

/** They are in no list any more, and are removed from their vault later. */
export async function forget(db: Db, ids: readonly string[]): Promise<void> {
  if (ids.length > 0)
    await db.query('update copies set forgotten_at = now() where id = any($1) and forgotten_at is null', [ids])
}

/** Those of destroyed desktops. */
export async function forgetDestroyed(db: Db): Promise<void> {
  await db.query(`update copies c set forgotten_at = now() from desktops d
                   where d.id = c.desktop_id and d.state = 'destroyed' and c.forgotten_at is null`)
}

export async function forgotten(db: Db, vault: string, limit: number): Promise<{ id: string; snapshot: string }[]> {
  const { rows } = await db.query<{ id: string; snapshot: string }>({
    name: 'copies-forgotten',
    text: `select id, snapshot from copies where vault = $1 and forgotten_at is not null order by forgotten_at limit $2`,
    values: [vault, limit],
  })
  return rows
}

export async function remove(db: Db, ids: readonly string[]): Promise<void> {
  await db.query('delete from copies where id = any($1)', [ids])
}

/** As customers see them, newest first. */
export async function list(db: Db, desktopId: string): Promise<CopyJson[]> {
  const { rows } = await db.query<CopyJson>({
    name: 'copies-list',
    text: `select id, kind, taken_at, size_bytes::float8 as size_bytes, vault from copies
           where desktop_id = $1 and forgotten_at is null order by taken_at desc, id desc`,
    values: [desktopId],
    types: timesAsText,
  })
  return rows
}

export interface CopyRow {
  id: string
  desktopId: string
  vault: string
  kind: CopyKind
  generation: number
  turn: number
  snapshot: string
  spec: DesktopSpec
  madeFrom: string | null
  traits: MadeCopy['traits']
  handoff: string
  takenAt: Date
}

export async function find(db: Db, desktopId: string, id: string): Promise<CopyRow | undefined> {
  const { rows } = await db.query<CopyRow>({
    name: 'copies-find',
    text: `select id, desktop_id as "desktopId", vault, kind, generation, turn, snapshot, spec, made_from as "madeFrom", traits,
             handoff, taken_at as "takenAt"
           from copies where desktop_id = $1 and id = $2 and forgotten_at is null`,
    values: [desktopId, id],
  })
  return rows[0]
}

const policyColumns = `name, selector as "select", copy_when as "when", keep, recover`

export async function policiesOf(db: Db, orgId: string): Promise<CopyPolicyJson[]> {
  const { rows } = await db.query<CopyPolicyJson>({
    name: 'copies-policies',
    text: `select ${policyColumns} from copy_policies where org_id = $1 order by name`,
    values: [orgId],
  })
  return rows
}

/** False if the organisation has as many as it may have. */
export async function putPolicy(db: Db, orgId: string, policy: CopyPolicyJson, most: number): Promise<boolean> {
  const { name, select, when, keep, recover } = policy
  const { rowCount } = await db.query(
    `insert into copy_policies (org_id, name, selector, copy_when, keep, recover)
     select $1, $2, $3, $4, $5, $6
      where (select count(*) from copy_policies where org_id = $1 and name <> $2) < $7
     on conflict (org_id, name) do update
       set selector = excluded.selector, copy_when = excluded.copy_when, keep = excluded.keep, recover = excluded.recover`,
    [orgId, name, select, when, JSON.stringify(keep satisfies CopiesKept), recover, most],
  )
  return rowCount === 1
}

export async function removePolicy(db: Db, orgId: string, name: string): Promise<void> {
  await db.query('delete from copy_policies where org_id = $1 and name = $2', [orgId, name])
}
