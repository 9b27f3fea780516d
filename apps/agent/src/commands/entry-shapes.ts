// Entries and their changes, as the API has them and as the agent works with them. Pure.
import type { ChangeEntryBody, EntryChange, EntryJson, GuestEntry } from '@dormouse/contract'

/** With the defaults. */
export function changeOf(body: ChangeEntryBody): EntryChange {
  const { action, path } = body
  switch (action) {
    case 'mkdir': {
      const { parents, mode, owner } = body
      return { action, path, parents: parents ?? true, mode: mode ? bitsOf(mode) : null, owner: owner ?? null }
    }
    case 'move':
      return { action, path, to: body.to, overwrite: body.overwrite ?? false }
    case 'copy': {
      const { to, overwrite, recursive } = body
      return { action, path, to, overwrite: overwrite ?? false, recursive: recursive ?? false }
    }
    case 'remove':
      return { action, path, recursive: body.recursive ?? false }
    case 'chmod':
      return { action, path, recursive: body.recursive ?? false, mode: bitsOf(body.mode) }
  }
}

const bitsOf = (mode: string): number => Number.parseInt(mode, 8)

export const entryJsonOf = ({ exact, mode, modifiedMs, ...entry }: GuestEntry): EntryJson => ({
  path: entry.path,
  exact_path: exact,
  type: entry.type,
  size: entry.size,
  mode: mode.toString(8).padStart(4, '0'),
  uid: entry.uid,
  gid: entry.gid,
  modified_at: new Date(Math.min(Math.max(modifiedMs, -mostMs), mostMs)).toISOString(),
  target: entry.target,
})

/** A date has no more. */
const mostMs = 8.64e15
