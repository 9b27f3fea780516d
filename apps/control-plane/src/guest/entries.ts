// Entries of the file system of an awake desktop's guest: listed and changed. Any replica with a link to the host can serve
// them.
import {
  type ChangedEntryJson,
  type ChangeEntryBody,
  type EntriesJson,
  type EntryChange,
  type EntryJson,
  entriesLimitDefault,
  entriesTimeoutSecs,
  type GuestEntry,
  refuseField,
  treeTimeoutSecs,
} from '@dormouse/contract'
import type { Links } from '../agents/links.ts'
import type { Customer } from '../principals/service.ts'
import type { AwakeDesktops } from './awake.ts'
import { entryPath } from './paths.ts'

/** Added to the guest's own timeout: time for the host to respond. */
const marginMs = 10_000

interface EntriesQuery {
  path: string
  depth?: number | undefined
  cursor?: string | undefined
  limit?: number | undefined
}

export class Entries {
  readonly #awake: AwakeDesktops
  readonly #links: Links

  constructor(awake: AwakeDesktops, links: Links) {
    this.#awake = awake
    this.#links = links
  }

  async list(caller: Customer, id: string, query: EntriesQuery, requestId: string): Promise<EntriesJson> {
    const { depth = 1, cursor = null, limit = entriesLimitDefault } = query
    const path = entryPath('path', query.path)
    const { hostId, ...target } = await this.#awake.require(caller, id)
    const payload = { ...target, path, depth, after: cursor, limit, timeoutSecs: entriesTimeoutSecs }
    const options = { timeoutMs: entriesTimeoutSecs * 1_000 + marginMs, requestId }
    const asked = this.#links.command(hostId, 'guest.listEntries', payload, options)
    const { entries, next } = await asked.catch((error: unknown) => this.#awake.whyNot(id, error, { path }))
    return { entries: entries.map(entryToJson), next_cursor: next }
  }

  /** The change is finished in the guest even if the client disconnects. */
  async change(caller: Customer, id: string, body: ChangeEntryBody, requestId: string): Promise<ChangedEntryJson> {
    const change = changeOf(body)
    const { hostId, ...target } = await this.#awake.require(caller, id)
    const timeoutSecs = isQuick(change) ? entriesTimeoutSecs : treeTimeoutSecs
    const options = { timeoutMs: timeoutSecs * 1_000 + marginMs, requestId }
    const asked = this.#links.command(hostId, 'guest.changeEntry', { ...target, change, timeoutSecs }, options)
    const { entry } = await asked.catch((error: unknown) => this.#awake.whyNot(id, error, change))
    return { entry: entry && entryToJson(entry) }
  }
}

const isQuick = (change: EntryChange) => change.action === 'mkdir' || (change.action === 'chmod' && !change.recursive)

/** With the defaults, and absolute paths. */
function changeOf(body: ChangeEntryBody): EntryChange {
  const path = entryPath('path', body.path)
  if (body.action === 'mkdir') {
    const { parents, mode, owner } = body
    return { action: 'mkdir', path, parents: parents ?? true, mode: mode ? bitsOf(mode) : null, owner: owner ?? null }
  }
  if (path === '/') return refuseField('path', 'must not be the root of the file system')
  switch (body.action) {
    case 'move':
      return { action: 'move', path, to: targetOf(path, body.to), overwrite: body.overwrite ?? false }
    case 'copy': {
      const { overwrite, recursive } = body
      const to = targetOf(path, body.to)
      return { action: 'copy', path, to, overwrite: overwrite ?? false, recursive: recursive ?? false }
    }
    case 'remove':
      return { action: 'remove', path, recursive: body.recursive ?? false }
    case 'chmod':
      return { action: 'chmod', path, recursive: body.recursive ?? false, mode: bitsOf(body.mode) }
  }
}

function targetOf(path: string, given: string): string {
  const to = entryPath('to', given)
  if (to === '/' || to === path) return refuseField('to', 'must be another path than `path` and the root')
  if (to.startsWith(`${path}/`)) return refuseField('to', 'must not be below `path`')
  return to
}

const bitsOf = (mode: string): number => Number.parseInt(mode, 8)

const entryToJson = ({ exact, mode, modifiedMs, ...entry }: GuestEntry): EntryJson => ({
  path: entry.path,
  exact_path: exact,
  type: entry.type,
  size: entry.size,
  mode: mode.toString(8).padStart(4, '0'),
  uid: entry.uid,
  gid: entry.gid,
  modified_at: new Date(modifiedMs).toISOString(),
  target: entry.target,
})
