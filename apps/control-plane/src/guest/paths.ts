// Which paths of a guest may be named at all. Pure; what the path leads to is the guest's business.
import { refuseField } from '@dormouse/contract'

const maxPathBytes = 4_096
const maxNameBytes = 255

/** The absolute path in the guest for what the caller wrote without its leading slash; refuses what can mean no file. */
export function guestPath(given: string): string {
  const bad = (why: string): never => refuseField('path', why)
  if (given.includes('\0')) bad('must not contain NUL')
  if (given === '' || given.endsWith('/')) bad('must name a file')
  if (Buffer.byteLength(given) > maxPathBytes) bad(`must have at most ${maxPathBytes} bytes`)
  if (disguises(given).some(climbs)) bad('must not contain a `..` segment')
  if (given.split('/').some((name) => Buffer.byteLength(name) > maxNameBytes))
    bad(`must not have a name of more than ${maxNameBytes} bytes`)
  return `/${given}`
}

/** The path as it is, and as it would be after each further decoding that somebody on the way might do. */
function disguises(given: string): string[] {
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
