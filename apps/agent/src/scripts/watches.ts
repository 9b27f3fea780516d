// A watch of a folder as the supervisor's operations, and the lines that it prints. The program: apps/agent/supervisor/watch.h.
import { type GuestCallBody, refuse, type SeenChanges, watchedFoldersMax } from '@dormouse/contract'
import { codeByErrno } from './errnos.ts'
import { watches } from './supervisor.ts'

type Change = SeenChanges['changes'][number]

export const startWatchWords = ({ id, path, recursive }: GuestCallBody<'watch.start'>): (string | number)[] => [
  ...[watches, 'watch.start', id, path, recursive ? 1 : 0],
]

const types: Record<string, Change['type']> = {
  c: 'created',
  m: 'modified',
  w: 'written',
  a: 'attributes',
  d: 'removed',
  v: 'moved',
}

/** Whether the folder is watched by now; undefined while it is not known. Refuses if it cannot be. */
export function watchBegan(printed: string): number | undefined {
  const end = printed.indexOf('\n')
  if (end < 0) return undefined
  const [word, code] = printed.slice(0, end).split(' ')
  if (word === 'r') return end + 1
  if (word === 'l')
    return refuse('watch_limit', `there are more than ${watchedFoldersMax} folders; watch a smaller one`)
  if (word !== 'e') return refuse('guest_unavailable', 'the guest could not watch the folder')
  return refuseBy(Number(code))
}

/** EMFILE and ENOSPC: of inotify, not of the disk. */
const limits = new Set([24, 28])

function refuseBy(errno: number): never {
  if (limits.has(errno)) return refuse('watch_limit', 'the guest’s limit of inotify watches is reached')
  const code = codeByErrno.get(errno)
  return code ? refuse(code) : refuse('file_refused', `error ${errno}`)
}

/** The changes in whole lines, and how many bytes these are. A guest may print anything: what is no change is left out. */
export function parseChanges(printed: Buffer): { changes: Change[]; bytes: number } {
  const bytes = printed.lastIndexOf(0x0a) + 1
  const lines = printed.subarray(0, bytes).toString('latin1').split('\n')
  return { changes: lines.flatMap((line) => changeOf(line) ?? []), bytes }
}

function changeOf(line: string): Change | undefined {
  const [letter = '', kind, path, to] = line.split(' ')
  const type = types[letter]
  if (!type || path === undefined || (type === 'moved') !== (to !== undefined)) return undefined
  const [from, into] = [textOf(path), to === undefined ? null : textOf(to)]
  const exact = from.exact && (into?.exact ?? true)
  return { type, path: from.text, exact_path: exact, folder: kind === 'd', to: into?.text ?? null }
}

function textOf(base64: string): { text: string; exact: boolean } {
  const bytes = Buffer.from(base64, 'base64')
  const text = bytes.toString('utf8')
  return { text: text.slice(0, pathMaxLength), exact: Buffer.from(text).equals(bytes) }
}

const pathMaxLength = 8_192
