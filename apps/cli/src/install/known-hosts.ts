// Reads OpenSSH's known_hosts: plain, hashed, with patterns and ports, revoked. Pure; knows no files.
import { createHmac, timingSafeEqual } from 'node:crypto'

/** What known_hosts says of a host's key. `changed`: it has other keys for the host, and not this one. */
export type Verdict = 'known' | 'unknown' | 'changed' | 'revoked'

interface Entry {
  revoked: boolean
  type: string
  key: Buffer
}

/** Judges a key, as the server sent it, for this host and port. */
export function judgeKey(text: string, host: string, port: number, key: Buffer): Verdict {
  const entries = entriesOf(text, host, port)
  const same = entries.filter((entry) => entry.key.length === key.length && timingSafeEqual(entry.key, key))
  if (same.some(({ revoked }) => revoked)) return 'revoked'
  if (same.length > 0) return 'known'
  return entries.some(({ revoked }) => !revoked) ? 'changed' : 'unknown'
}

/** The types of the keys that are known of this host, so that the server is asked for one of these. */
export function knownTypes(text: string, host: string, port: number): string[] {
  const types = entriesOf(text, host, port).filter(({ revoked }) => !revoked)
  return [...new Set(types.map(({ type }) => type))]
}

/** The line under which a new key is stored. */
export function lineFor(host: string, port: number, key: Buffer): string {
  return `${nameOf(host, port)} ${typeOf(key)} ${key.toString('base64')}\n`
}

/** The type that the key itself names. */
export function typeOf(key: Buffer): string {
  const length = key.length >= 4 ? key.readUInt32BE(0) : 0
  return key.toString('latin1', 4, 4 + Math.min(length, 64))
}

const nameOf = (host: string, port: number): string => (port === 22 ? host : `[${host}]:${port}`).toLowerCase()

function entriesOf(text: string, host: string, port: number): Entry[] {
  const name = nameOf(host, port)
  return text.split('\n').flatMap((line) => {
    const words = line.trim().split(/\s+/)
    if (words[0] === '' || words[0]!.startsWith('#')) return []
    const mark = words[0]!.startsWith('@') ? words.shift() : undefined
    const [names, type, key] = words
    // Certificates are not accepted, so an authority for them is no key of the host.
    if (!key || !type || !names || (mark && mark !== '@revoked') || !isFor(names, name)) return []
    return [{ revoked: mark === '@revoked', type, key: Buffer.from(key, 'base64') }]
  })
}

function isFor(names: string, name: string): boolean {
  if (names.startsWith('|')) return isHashOf(names, name)
  const patterns = names.toLowerCase().split(',')
  if (patterns.some((each) => each.startsWith('!') && matches(each.slice(1), name))) return false
  return patterns.some((each) => matches(each, name))
}

/** `|1|salt|hash`: HMAC-SHA1 of the name, so that the file does not list which hosts are known. */
function isHashOf(names: string, name: string): boolean {
  const [, version, salt, hash] = names.split('|')
  if (version !== '1' || !salt || !hash) return false
  const own = createHmac('sha1', Buffer.from(salt, 'base64')).update(name).digest()
  const given = Buffer.from(hash, 'base64')
  return own.length === given.length && timingSafeEqual(own, given)
}

function matches(pattern: string, name: string): boolean {
  if (!/[*?]/.test(pattern)) return pattern === name
  const source = pattern
    .replace(/[.+^${}()|[\]\\]/g, '\\$&')
    .replaceAll('*', '.*')
    .replaceAll('?', '.')
  return new RegExp(`^${source}$`).test(name)
}
