// Entries of the file system of an awake desktop's guest: listed and changed.
import {
  type ChangedEntryJson,
  type ChangeEntryBody,
  type EntriesJson,
  entriesLimitDefault,
  entriesTimeoutSecs,
  refuseField,
  treeTimeoutSecs,
} from '@dormouse/contract'
import type { Asking, GuestCaller } from './calls.ts'
import { entryPath } from './paths.ts'

interface EntriesQuery {
  path: string
  depth?: number | undefined
  cursor?: string | undefined
  limit?: number | undefined
}

export class Entries {
  readonly #calls: GuestCaller

  constructor(calls: GuestCaller) {
    this.#calls = calls
  }

  list(asking: Asking, query: EntriesQuery): Promise<EntriesJson> {
    const { depth = 1, cursor = null, limit = entriesLimitDefault } = query
    const path = entryPath('path', query.path)
    const how = { timeoutSecs: entriesTimeoutSecs, at: { path } }
    return this.#calls.ask(asking, 'entry.list', { path, depth, cursor, limit }, how)
  }

  /** The change is finished in the guest even if the client disconnects. */
  change(asking: Asking, body: ChangeEntryBody): Promise<ChangedEntryJson> {
    const change = checked(body)
    const timeoutSecs = isQuick(change) ? entriesTimeoutSecs : treeTimeoutSecs
    return this.#calls.ask(asking, 'entry.change', change, { timeoutSecs, at: change })
  }
}

const isQuick = (change: ChangeEntryBody) =>
  change.action === 'mkdir' || (change.action === 'chmod' && !change.recursive)

/** With absolute paths that may be changed. */
function checked(body: ChangeEntryBody): ChangeEntryBody {
  const path = entryPath('path', body.path)
  if (body.action === 'mkdir') return { ...body, path }
  if (path === '/') return refuseField('path', 'must not be the root of the file system')
  return 'to' in body ? { ...body, path, to: targetOf(path, body.to) } : { ...body, path }
}

function targetOf(path: string, given: string): string {
  const to = entryPath('to', given)
  if (to === '/' || to === path) return refuseField('to', 'must be another path than `path` and the root')
  if (to.startsWith(`${path}/`)) return refuseField('to', 'must not be below `path`')
  return to
}
