// What is asked of our program about entries of a guest's file system, and what it says. A guest may say anything. Pure.
import { isUtf8 } from 'node:buffer'
import { type EntryChange, type GuestEntry, type ListEntriesResult, refuse } from '@dormouse/contract'
import type { EntriesRequest } from '../driver/guest-transport.ts'
import { entryLimits } from './limits.ts'
import { noRecords } from './supervisor.ts'

type Words = (string | number)[]

export const listWords = ({ path, depth, limit }: EntriesRequest): Words => [
  noRecords,
  'entry.list',
  entryLimits.searchSecs,
  path,
  depth,
  limit,
]

/** The input of a list: the last path of the page before. A path has no NUL. */
export function listInput({ after }: EntriesRequest): Buffer {
  const path = Buffer.from(after ?? '', 'base64url')
  return path.subarray(0, path.indexOf(0) >>> 0)
}

export function changeWords(change: EntryChange, timeoutSecs: number): Words {
  const words = [noRecords, `entry.${change.action}`, timeoutSecs, change.path]
  const bit = (is: boolean) => (is ? 1 : 0)
  switch (change.action) {
    case 'mkdir':
      return [...words, bit(change.parents), change.mode ?? '', change.owner ?? '']
    case 'move':
      return [...words, change.to, bit(change.overwrite)]
    case 'copy':
      return [...words, change.to, bit(change.overwrite), bit(change.recursive)]
    case 'remove':
      return [...words, bit(change.recursive)]
    case 'chmod':
      return [...words, bit(change.recursive), change.mode]
  }
}

/** The page that the program has said. */
export function parsePage(said: Buffer, { path, depth, limit }: EntriesRequest): ListEntriesResult {
  const { all, hasMore } = entriesIn(said)
  const entries: GuestEntry[] = []
  let bytes = 0
  let last: Buffer | undefined
  for (const { name, entryAt } of all.slice(0, limit)) {
    const entry = entryAt(depth === 0 ? '' : `${path === '/' ? '' : path}/`)
    bytes += JSON.stringify(entry).length
    if (entries.length > 0 && bytes > entryLimits.pageMaxBytes) break
    entries.push(entry)
    last = name
  }
  const isCut = entries.length < all.length || hasMore
  return { entries, next: (isCut && last?.toString('base64url')) || null }
}

/** The one entry that a change has said. */
export function parseEntry(said: Buffer): GuestEntry {
  const [first] = entriesIn(said).all
  return first?.entryAt('') ?? notValid()
}

interface SaidEntry {
  name: Buffer
  /** The entry, if its name is below this path. */
  entryAt(above: string): GuestEntry
}

const newline = 10
type Numbers = [number, number, number, number, number, number, number]

/** Each entry is a line of numbers, and behind it the bytes of its name and of a link's target. */
function entriesIn(said: Buffer): { all: SaidEntry[]; hasMore: boolean } {
  const all: SaidEntry[] = []
  for (let at = 0; at < said.length; ) {
    const start = said.indexOf(newline, at) + 1 || said.length
    const line = said.toString('latin1', at, start)
    if (line === 'more\n') return { all, hasMore: true }
    if (line === 'end\n') break
    const [, ...numbers] =
      /^entry (\d{1,7}) (\d{1,19}) (\d{1,10}) (\d{1,10}) (-?\d{1,20}) (\d{1,4}) (\d{1,4})\n$/.exec(line) ?? notValid()
    const [mode, bytes, uid, gid, modified, nameBytes, targetBytes] = numbers.map(Number) as Numbers
    at = start + nameBytes + targetBytes
    if (nameBytes === 0 || at > said.length) notValid()
    const size = Math.min(bytes, Number.MAX_SAFE_INTEGER)
    const name = said.subarray(start, start + nameBytes)
    const target = mode >> 12 === 0xa ? said.toString('utf8', start + nameBytes, at) : null
    const modifiedMs = Math.abs(modified) <= 8.64e15 ? modified : 0
    const facts = { type: types[mode >> 12] ?? 'unknown', size, mode: mode & 0o7777, uid, gid, modifiedMs, target }
    const entryAt = (above: string) => ({ path: above + name.toString('utf8'), exact: isUtf8(name), ...facts })
    all.push({ name, entryAt })
  }
  return { all, hasMore: false }
}

const notValid = (): never => refuse('guest_unavailable', 'the guest reported an entry that is not valid')

/** By the upper four bits of the raw mode. */
const types: GuestEntry['type'][] = []
types[0x8] = 'file'
types[0x4] = 'directory'
types[0xa] = 'link'
types[0x1] = 'fifo'
types[0xc] = 'socket'
types[0x2] = 'character_device'
types[0x6] = 'block_device'
