// The table of quotas by selector, and the counts of what they select.
import { parseSelector, type Selector, selectorText } from '@dormouse/contract'
import type { Db } from '../db/pool.ts'
import { selected } from '../db/selection.ts'
import { admittedBy, type Reach } from '../principals/scope.ts'

export interface Quota {
  name: string
  selector: Selector
  maxDesktops: number
}

interface QuotaRow {
  name: string
  selector: string
  maxDesktops: number
}

const columns = 'name, selector, max_desktops as "maxDesktops"'

const quotaOf = ({ name, selector, maxDesktops }: QuotaRow): Quota => ({
  name,
  selector: parseSelector(selector),
  maxDesktops,
})

/**
 * Locks the organisation until the transaction ends: what changes its quotas or is counted by them waits. False if there is no
 * such organisation.
 */
export async function lockOrg(tx: Db, orgId: string): Promise<boolean> {
  const { rowCount } = await tx.query({
    name: 'quotas-lock',
    text: 'select 1 from organisations where id = $1 for no key update',
    values: [orgId],
  })
  return rowCount === 1
}

/** The organisation's quotas, by name. */
export async function list(db: Db, orgId: string): Promise<Quota[]> {
  const { rows } = await db.query<QuotaRow>({
    name: 'quotas-list',
    text: `select ${columns} from org_quotas where org_id = $1 order by name`,
    values: [orgId],
  })
  return rows.map(quotaOf)
}

export async function put(tx: Db, orgId: string, { name, selector, maxDesktops }: Quota): Promise<void> {
  await tx.query(
    `insert into org_quotas (org_id, name, selector, max_desktops) values ($1, $2, $3, $4)
     on conflict (org_id, name) do update set selector = excluded.selector, max_desktops = excluded.max_desktops`,
    [orgId, name, selectorText(selector), maxDesktops],
  )
}

/** Returns what was deleted; undefined if there was nothing. */
export async function remove(tx: Db, orgId: string, name: string): Promise<Quota | undefined> {
  const { rows } = await tx.query<QuotaRow>(
    `delete from org_quotas where org_id = $1 and name = $2 returning ${columns}`,
    [orgId, name],
  )
  return rows[0] && quotaOf(rows[0])
}

/** Whether the organisation has as many desktops that the quota selects as it may have. */
export async function isFull(tx: Db, orgId: string, { selector, maxDesktops }: Quota): Promise<boolean> {
  const values: unknown[] = [orgId, maxDesktops]
  const isSelected = selected(selector, 'd.labels', (given) => `$${values.push(given)}`)
  const { rows } = await tx.query<{ full: boolean }>(
    `select count(*) >= $2 as full from (
       select from desktops d where d.org_id = $1 and d.state <> 'destroyed' and ${isSelected} limit $2) counted`,
    values,
  )
  return rows[0]!.full
}

/** The desktops that are not destroyed and that the credential reaches: all, and those that each quota selects. */
export async function count(
  db: Db,
  { orgId, scope }: Reach,
  quotas: readonly Quota[],
): Promise<{ all: number; each: number[] }> {
  const values: unknown[] = [orgId]
  const value = (given: unknown) => `$${values.push(given)}`
  const counts = quotas.map(({ selector }) => {
    const isSelected = selected(selector, 'd.labels', value)
    return `count(*) filter (where ${isSelected})`
  })
  const { rows } = await db.query<{ all: number; each: number[] }>(
    `select count(*)::int as "all", array[${counts.join(', ')}]::int[] as each
     from desktops d where d.org_id = $1 and d.state <> 'destroyed' and ${admittedBy(scope, 'd', value)}`,
    values,
  )
  return rows[0]!
}

/** The limit of all desktops of the organisation; undefined if there is no such organisation. */
export async function maxOf(db: Db, orgId: string, byDefault: number): Promise<number | undefined> {
  const { rows } = await db.query<{ max: number }>(
    'select coalesce(max_desktops, $2::int) as max from organisations where id = $1',
    [orgId, byDefault],
  )
  return rows[0]?.max
}
