// Validates paths in a guest. Pure; what a path leads to is up to the guest.
import { refuseField } from '@dormouse/contract'

const maxPathBytes = 4_096
const maxNameBytes = 255

/** The absolute path for a path without its leading slash; refuses what cannot name a file. */
export function guestPath(given: string): string {
  const bad = (why: string): never => refuseField('path', why)
  if (given.includes('\0')) bad('must not contain NUL')
  if (given === '' || given.endsWith('/')) bad('must name a file')
  if (Buffer.byteLength(given) > maxPathBytes) bad(`must have at most ${maxPathBytes} bytes`)
  if (decodings(given).some(climbs)) bad('must not contain a `..` segment')
  if (given.split('/').some((name) => Buffer.byteLength(name) > maxNameBytes))
    bad(`must not have a name of more than ${maxNameBytes} bytes`)
  return `/${given}`
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
