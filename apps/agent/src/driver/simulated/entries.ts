// Entries of a simulated guest: files in a store that keeps paths and bytes, without owners, modes or links. An empty folder
// is a path with a slash at its end.
import { type EntryChange, type GuestEntry, type ListEntriesResult, type RefusalCode, refuse } from '@dormouse/contract'
import type { EntriesRequest } from '../guest-transport.ts'
import { always, asBytes, isFolder } from './files.ts'

/** The guest's files by their paths. */
export interface FileStore {
  paths(): string[]
  read(path: string): string | undefined
  write(path: string, text: string | undefined): void
}

export function listSimulated(store: FileStore, { path, depth, after, limit }: EntriesRequest): ListEntriesResult {
  if (depth === 0) return { entries: [entryOf(store, path)], next: null }
  if (store.read(path) !== undefined) refuse('not_directory', 'the path is not a directory in the guest')
  if (!isFolder(store.paths(), path)) notFound()
  const start = path === '/' ? '/' : `${path}/`
  const last = after === null ? '' : Buffer.from(after, 'base64url').toString('utf8')
  const below = new Set<string>()
  for (const file of [...store.paths(), ...always]) {
    if (!file.startsWith(start)) continue
    const names = file.slice(start.length).split('/').filter(Boolean)
    for (let level = 1; level <= Math.min(depth, names.length); level++)
      below.add(start + names.slice(0, level).join('/'))
  }
  const rest = [...below].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b))).filter((each) => each > last)
  const page = rest.slice(0, limit)
  const next = rest.length > page.length ? Buffer.from(page.at(-1)!).toString('base64url') : null
  return { entries: page.map((each) => entryOf(store, each)), next }
}

export function changeSimulated(store: FileStore, change: EntryChange): GuestEntry | null {
  const { path } = change
  if (change.action === 'mkdir') makeFolder(store, path, change.parents)
  else entryOf(store, path)
  switch (change.action) {
    case 'mkdir':
    case 'chmod':
      return entryOf(store, path)
    case 'remove':
      removeTree(store, path, change.recursive)
      return null
    case 'move':
      copyTree(store, change)
      removeTree(store, path, true)
      return entryOf(store, change.to)
    case 'copy':
      if (isFolder(store.paths(), path) && !change.recursive) refuse('is_directory', 'the path is a directory')
      copyTree(store, change)
      return entryOf(store, change.to)
  }
}

function makeFolder(store: FileStore, path: string, parents: boolean): void {
  if (store.read(path) !== undefined) refuseAs('file_exists')
  const isThere = isFolder(store.paths(), path)
  if (isThere && !parents) refuseAs('file_exists')
  if (isThere) return
  const parent = path.slice(0, path.lastIndexOf('/')) || '/'
  if (!parents && !isFolder(store.paths(), parent)) notFound()
  store.write(`${path}/`, '')
}

function removeTree(store: FileStore, path: string, recursive: boolean): void {
  const all = treeOf(store, path)
  if (!recursive && all.some((each) => each.startsWith(`${path}/`) && each !== `${path}/`)) refuseAs('not_empty')
  for (const each of all) store.write(each, undefined)
}

function copyTree(store: FileStore, { path, to, overwrite }: { path: string; to: string; overwrite: boolean }): void {
  if (isFolder(store.paths(), to)) refuse('is_directory', 'the path names a directory in the guest')
  if (store.read(to) !== undefined && !overwrite) refuseAs('file_exists')
  for (const each of treeOf(store, path)) store.write(to + each.slice(path.length), store.read(each))
}

const treeOf = (store: FileStore, path: string): string[] =>
  store.paths().filter((each) => each === path || each.startsWith(`${path}/`))

function entryOf(store: FileStore, path: string): GuestEntry {
  const text = store.read(path)
  const isFile = text !== undefined
  if (!isFile && !isFolder(store.paths(), path)) notFound()
  const size = isFile ? asBytes(text).length : 0
  const type = isFile ? 'file' : 'directory'
  const common = { path, exact: true, uid: 0, gid: 0, modifiedMs: 0, target: null }
  return { ...common, type, size, mode: isFile ? 0o644 : 0o755 }
}

const notFound = (): never => refuse('file_not_found', 'there is no such file in the guest')
const refuseAs = (code: RefusalCode): never => refuse(code)
