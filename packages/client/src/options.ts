// Options that do not exist are refused, not ignored: a misspelt one would change nothing, in silence.
import { didYouMean } from '@dormouse/contract/nearest'
import { InvalidRequestError } from './errors.ts'

/** Each option of a type; the compiler holds the list to the type. */
export type NamesOf<Options> = Readonly<Record<keyof Options, true>>

type Names = Readonly<Record<string, true>>

/** Throws InvalidRequestError on the first option that is not known, with the one that is most like it. */
export function refuseUnknown(where: string, given: object | undefined, known: Names): void {
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

const unknownIn = (given: object = {}, known: Names): string | undefined =>
  Object.entries(given).find(([name, value]) => value !== undefined && !Object.hasOwn(known, name))?.[0]

/** To suggest from: the methods' own lists are their parameters. */
const ofSomeMethod = [
  ...['signal', 'timeoutMs', 'retries', 'onResponse', 'idempotencyKey', 'wait', 'format', 'mode', 'offset', 'length'],
  ...['version', 'stream', 'waitSecs', 'eof', 'depth', 'pageSize', 'recursive', 'overwrite', 'parents', 'takeover'],
  ...['claim', 'method', 'maxBytes', 'once', 'expiresMs', 'pieceBytes', 'onProgress'],
]
