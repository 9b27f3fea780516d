// Validates paths in a guest. Pure; what a path leads to is up to the guest.
import { refuseField } from '@dormouse/contract'

const maxPathBytes = 4_096
const maxNameBytes = 255

/** The absolute path for a path without its leading slash; refuses what cannot name a file. */
export function guestPath(given: string): string {
  const why = given === '' || given.endsWith('/') ? 'must name a file' : whyNot(given)
  return why ? refuseField('path', why) : `/${given}`
}

/** Why no path can be like this; undefined if one can. */
function whyNot(given: string): string | undefined {
  if (given.includes('\0')) return 'must not contain NUL'
  if (Buffer.byteLength(given) > maxPathBytes) return `must have at most ${maxPathBytes} bytes`
  if (decodings(given).some(climbs)) return 'must not contain a `..` segment'
  if (given.split('/').some((name) => Buffer.byteLength(name) > maxNameBytes))
    return `must not have a name of more than ${maxNameBytes} bytes`
  return undefined
}

/** A path in a request's field, with its leading slash: as a client writes it. A slash at its end is dropped. */
export function entryPath(field: string, given: string): string {
  const bad = (why: string): never => refuseField(field, why)
  if (!given.startsWith('/')) bad('must be an absolute path')
  const path = given.replace(/\/+$/, '')
  if (path === '') return '/'
  const why = whyNot(path.slice(1))
  return why ? bad(why) : path
}

/** The path, and what further percent-decoding by a proxy or the guest would make of it. */
function decodings(given: string): string[] {
  const seen = [given]
  for (let depth = 0; depth < 4; depth++) {
    const next = decoded(seen.at(-1)!)
    if (next === seen.at(-1)) break
    seen.push(next)
  }
  return seen
}

const decoded = (text: string): string =>
  text.replace(/%[0-9a-f]{2}/gi, (hex) => String.fromCharCode(Number.parseInt(hex.slice(1), 16)))

const climbs = (path: string): boolean => path.split(/[\\/]/).includes('..')
