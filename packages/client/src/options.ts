// Options that do not exist are refused, not ignored: a misspelt one would change nothing, in silence.
import { didYouMean } from '@dormouse/contract/nearest'
import { InvalidRequestError } from './errors.ts'

/** Each option of a type; the compiler holds the list to the type. */
export type NamesOf<Options> = Readonly<Record<keyof Options, true>>

type Names = Readonly<Record<string, true>>

/** Throws InvalidRequestError on the first option that is not known, with the one that is most like it. */
export function refuseUnknown(where: string, given: object | undefined, known: Names): void {
  if (given === null || (typeof given !== 'object' && given !== undefined))
    throw new InvalidRequestError(`the options of ${where} must be an object, not ${JSON.stringify(given)}`)
  const name = unknownIn(given, known)
  if (name === undefined) return
  const names = Object.keys(known)
  throw new InvalidRequestError(
    `${where} has no option "${name}"${didYouMean(name, names) || `; its options are ${names.join(', ')}`}`,
  )
}

/** The same at the end of the way of all calls: what no method on the way has taken. */
export function refuseLeft(given: object, known: Names): void {
  const name = unknownIn(given, known)
  if (name !== undefined)
    throw new InvalidRequestError(`there is no option "${name}" here${didYouMean(name, ofSomeMethod)}`)
}

/** Whole seconds of an option in ms: the API counts in seconds. Throws InvalidRequestError on what is no duration. */
export function wholeSeconds<Ms extends number | undefined>(
  name: string,
  ms: Ms,
): Ms extends number ? number : undefined
export function wholeSeconds(name: string, ms: number | undefined): number | undefined {
  if (ms === undefined) return undefined
  if (typeof ms === 'number' && ms > 0 && Number.isFinite(ms)) return Math.ceil(ms / 1_000)
  throw new InvalidRequestError(`${name} must be a number of milliseconds above 0, not ${String(ms)}`)
}

/** Throws InvalidRequestError unless a mode is octal text: the number 0o644 would be read as the octal digits of 420. */
export function checkMode(mode: string | undefined): void {
  if (mode === undefined || mode === null || typeof mode === 'string') return
  throw new InvalidRequestError(`mode must be octal text, such as '0644', not the ${typeof mode} ${String(mode)}`)
}

const unknownIn = (given: object | undefined, known: Names): string | undefined =>
  Object.entries(given ?? {}).find(([name, value]) => value !== undefined && !Object.hasOwn(known, name))?.[0]

/** To suggest from: the methods' own lists are their parameters. */
const ofSomeMethod = [
  ...['signal', 'timeoutMs', 'retries', 'onResponse', 'idempotencyKey', 'wait', 'format', 'mode', 'offset', 'length'],
  ...['version', 'stream', 'waitSecs', 'eof', 'depth', 'pageSize', 'recursive', 'overwrite', 'parents', 'takeover'],
  ...['claim', 'method', 'maxBytes', 'once', 'expiresMs', 'pieceBytes', 'onProgress', 'wake'],
]
