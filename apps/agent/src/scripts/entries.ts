// The shell script that lists entries of a guest's file system, over either transport, and what it prints. For any POSIX
// shell with find, sort, xargs and stat of BusyBox or GNU.
import { isUtf8 } from 'node:buffer'
import { type GuestEntry, type ListEntriesResult, refuse } from '@dormouse/contract'
import type { EntriesRequest } from '../driver/guest-transport.ts'
import { prologue } from './files.ts'
import { entryLimits } from './limits.ts'
import { quote } from './quote.ts'
import { limitedFunction, wasLimited } from './time-limit.ts'

/**
 * One record: raw mode, size, owner, group, time of change, name and, for a link, name and target once more. Names may hold
 * anything but the nonce.
 */
const recordOf = (nonce: string) => `'%f %s %u %g %y|%n${nonce}%N${nonce}'`

/** GNU's `%N` would quote names; `%y` is in UTC. */
const plain = `QUOTING_STYLE=literal TZ=UTC; export QUOTING_STYLE TZ\n`

/** Prints the record of what `$p` names. It is not followed if it is a link. */
export const printEntry = (nonce: string): string => `${plain}stat -c ${recordOf(nonce)} "$p"\n`

/** Ends the script unless `$p` names something, be it a link that leads nowhere. */
export const mustExist = `[ -L "$p" ] || [ -e "$p" ] || { e=$(ls -d "$p" 2>&1 >/dev/null); no "\${e##*: }"; }\n`

/**
 * Prints a record for each entry, sorted by the bytes of their paths, at most one more than requested. A search that does not
 * finish in time says so on stderr. Paths begin with `./`, so that none is taken for an option.
 */
export function listScript(request: EntriesRequest, nonce: string): string {
  const { path, depth, after, limit } = request
  const start = `${prologue}p=${quote(path)}\n`
  if (depth === 0) return start + mustExist + printEntry(nonce)
  return `${start}${limitedFunction}[ -d "$p" ] || { e=$(ls -dL "$p" 2>&1 >/dev/null) && no 'Not a directory'; no "\${e##*: }"; }
cd "$p" 2>/dev/null || no 'Permission denied'
${plain}a=$(printf '${octal(after)}'; echo x); a=\${a%x}; export a
exec 4>&2
{
  limited ${entryLimits.searchSecs} find . -mindepth 1 -maxdepth ${depth} -print0 2>/dev/null
  case $? in ${wasLimited} echo ': Timed out' >&4;; esac
} | sort -z | xargs -0 sh -c 'for p; do [ "$p" \\> "$a" ] && printf "%s\\0" "$p"; done' sh 2>/dev/null |
  xargs -0 -n ${limit + 1} -s ${entryLimits.namesMaxBytes} sh -c 'stat -c "$0" "$@"; exit 255' ${recordOf(nonce)} 2>/dev/null |
  head -c ${entryLimits.printedMaxBytes}
exit 0
`
}

/** As octal escapes of `printf`. */
const octal = (bytes: string | null): string =>
  bytes === null
    ? ''
    : [...Buffer.from(bytes, 'base64url')].map((byte) => `\\${byte.toString(8).padStart(3, '0')}`).join('')

/** The page that the script has printed. Throws `guest_unavailable` if it printed something else. */
export function parsePage(printed: Buffer, { path, depth, limit }: EntriesRequest, nonce: string): ListEntriesResult {
  const all = recordsIn(printed, nonce)
  const entries: GuestEntry[] = []
  let [bytes, last] = [0, '']
  for (const record of all.slice(0, limit)) {
    const entry = entryOf(record, depth === 0 ? '' : path)
    bytes += JSON.stringify(entry).length
    if (entries.length > 0 && bytes > entryLimits.pageMaxBytes) break
    entries.push(entry)
    last = record.name
  }
  // Long names make `xargs` begin another batch, which is not printed.
  const isCut = printed.length > entryLimits.namesMaxBytes / 2
  const hasMore = depth > 0 && entries.length > 0 && (entries.length < all.length || isCut)
  return { entries, next: hasMore ? Buffer.from(last, 'latin1').toString('base64url') : null }
}

/** The one entry that `printEntry` has printed. */
export function parseEntry(printed: Buffer, nonce: string): GuestEntry {
  const [record] = recordsIn(printed, nonce)
  return record ? entryOf(record, '') : refuse('guest_unavailable', 'the guest did not report the entry')
}

/** Strings of bytes. */
interface PrintedEntry {
  mode: number
  size: number
  uid: number
  gid: number
  modified: string
  name: string
  target: string | null
}

/** The records that are whole. */
function recordsIn(printed: Buffer, nonce: string): PrintedEntry[] {
  const text = printed.toString('latin1')
  return text
    .split(`${nonce}\n`)
    .slice(0, -1)
    .map((record) => recordIn(record, nonce))
}

function recordIn(text: string, nonce: string): PrintedEntry {
  const [head = '', quoted = ''] = text.split(nonce)
  const [, mode, size, uid, gid, modified, name] =
    /^([0-9a-f]{1,8}) (\d{1,15}) (\d{1,10}) (\d{1,10}) ([^|]{1,40})\|(.+)$/s.exec(head) ??
    refuse('guest_unavailable', 'the guest reported an entry that is not valid')
  return {
    mode: Number.parseInt(mode!, 16),
    size: Number(size),
    uid: Number(uid),
    gid: Number(gid),
    modified: modified!,
    name: name!,
    target: targetIn(quoted, name!),
  }
}

/** GNU prints `name -> target`, BusyBox `'name' -> 'target'`; a name begins with `.` or `/`. */
function targetIn(quoted: string, name: string): string | null {
  const [plainStart, quotedStart] = [`${name} -> `, `'${name}' -> '`]
  if (quoted.startsWith(plainStart)) return quoted.slice(plainStart.length)
  return quoted.startsWith(quotedStart) ? quoted.slice(quotedStart.length, -1) : null
}

/** By the upper four bits of the raw mode. */
const types: GuestEntry['type'][] = []
types[0x8] = 'file'
types[0x4] = 'directory'
types[0xa] = 'link'
types[0x1] = 'fifo'
types[0xc] = 'socket'
types[0x2] = 'character_device'
types[0x6] = 'block_device'

function entryOf({ mode, size, uid, gid, modified, name, target }: PrintedEntry, folder: string): GuestEntry {
  const path = asText(folder === '' ? name : name.slice(2))
  const isLink = mode >> 12 === 0xa
  return {
    path: folder === '' ? path.text : `${folder === '/' ? '' : folder}/${path.text}`,
    exact: path.exact,
    type: types[mode >> 12] ?? 'unknown',
    size,
    mode: mode & 0o7777,
    uid,
    gid,
    modifiedMs: millisOf(modified),
    target: isLink && target !== null ? asText(target).text : null,
  }
}

function asText(latin1: string): { text: string; exact: boolean } {
  const bytes = Buffer.from(latin1, 'latin1')
  return { text: bytes.toString('utf8'), exact: isUtf8(bytes) }
}

/** Such as `2026-11-23 11:59:48.838781097 +0000`; 0 for a time that JavaScript does not have. */
function millisOf(printed: string): number {
  const ms = Date.parse(
    printed
      .replace(' ', 'T')
      .replace(/(\.\d{3})\d*/, '$1')
      .replace(' +0000', 'Z'),
  )
  return Number.isNaN(ms) ? 0 : ms
}
