// What a PATCH changes of a desktop: each part of the service says which columns its fields set.
import {
  type ChangeDesktopBody,
  type Labels,
  labelsMax,
  Refusal,
  type Right,
  refuse,
  refuseField,
} from '@dormouse/contract'
import { type Db, sqlState } from '../db/pool.ts'
import { admits, type Scope } from '../principals/scope.ts'
import { idleChanges } from './idle-settings.ts'
import type { LabelCheck } from './label-rules.ts'
import { planChanges } from './plans.ts'
import { type SizeOptions, sizeChanges } from './sizes.ts'
import { type Assignment, assign, type DesktopRow, findByName } from './store.ts'

/** What a part of the service sets for these fields. It may refuse them. */
type Change = (body: ChangeDesktopBody, desktop: DesktopRow, sizes: SizeOptions) => Assignment[]

const parts: readonly Change[] = [idleChanges, wakeOnChanges, nameChanges, labelChanges, planChanges, sizeChanges]

/** The right that each field of a change needs of a credential. */
export const rightsOfChange = {
  idle_timeout_secs: 'power',
  idle_policy: 'power',
  schedule: 'power',
  wake_on: 'power',
  destroy_after_secs: 'destroy',
  tier: 'admin',
  disk_gib: 'admin',
  name: 'admin',
  labels: 'admin',
} as const satisfies Record<keyof ChangeDesktopBody, Right>

/** Changes the desktop. The caller has locked the row. */
export async function change(
  db: Db,
  desktop: DesktopRow,
  body: ChangeDesktopBody,
  { sizes, scope }: { sizes: SizeOptions; scope: Scope | null },
  checkLabels?: LabelCheck,
): Promise<DesktopRow> {
  if (desktop.state === 'destroyed')
    refuse('wrong_state', 'the desktop is destroyed; create another', { state: desktop.state })
  if (body.name) await requireFree(db, desktop, body.name, scope)
  if (body.labels) await checkLabels?.(desktop.labels, merged(desktop.labels, body.labels))
  return assign(
    db,
    desktop.id,
    parts.flatMap((part) => part(body, desktop, sizes)),
  )
}

function wakeOnChanges({ wake_on }: ChangeDesktopBody): Assignment[] {
  return wake_on === undefined ? [] : [{ column: 'wake_on', value: wake_on }]
}

function nameChanges({ name }: ChangeDesktopBody): Assignment[] {
  return name === undefined ? [] : [{ column: 'name', value: name }]
}

function labelChanges({ labels }: ChangeDesktopBody, desktop: DesktopRow): Assignment[] {
  if (labels === undefined) return []
  return [{ column: 'labels', value: JSON.stringify(merged(desktop.labels, labels)) }]
}

function merged(labels: Labels, changes: Record<string, string | null>): Labels {
  const kept = Object.entries({ ...labels, ...changes }).filter((entry): entry is [string, string] => entry[1] !== null)
  if (kept.length > labelsMax)
    refuseField('labels', `would be ${kept.length}, and a desktop has at most ${labelsMax}; remove some by \`null\``)
  return Object.fromEntries(kept)
}

async function requireFree(db: Db, desktop: DesktopRow, name: string, scope: Scope | null): Promise<void> {
  const holder = await findByName(db, desktop.orgId, name)
  if (holder && holder.id !== desktop.id) throw nameTaken(holder, scope)
}

/** Whether another request took the name in the same moment. */
export const isNameTaken = (error: unknown): boolean =>
  sqlState(error) === '23505' && (error as { constraint?: string }).constraint === 'desktops_by_name'

/** Names the holder, if it exists for the caller. */
export function nameTaken(holder: Pick<DesktopRow, 'id' | 'labels'>, scope: Scope | null): Refusal {
  return new Refusal('name_taken', undefined, admits(scope, holder) ? { desktop_id: holder.id } : {})
}
