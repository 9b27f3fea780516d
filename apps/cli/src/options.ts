// Options that several commands share.
import type { EventJson } from '@dormouse/client'
import type { execTimeoutLongestSecs } from '@dormouse/contract'
import { didYouMean } from '@dormouse/contract/nearest'
import { type Command, InvalidArgumentError, Option } from 'commander'
import type { Context } from './context.ts'

export interface JsonOption {
  json?: boolean
}

export interface KeyOption {
  idempotencyKey?: string
}

/** Adds `--json`, and an example to the help. */
export function withJson(command: Command, example: string): Command {
  return command
    .option('--json', 'print one JSON document, for programs')
    .addHelpText('after', `\nExample:\n  ${example.split('\n').join('\n  ')}`)
}

/** Makes it safe to run the command again. */
export function keyOption(): Option {
  return new Option('--idempotency-key <key>', 'run again with the same key, the command takes effect once')
}

/** How long a command waits for an operation. */
export function timeoutOption(): Option {
  return new Option('--timeout-secs <n>', 'stop waiting after this long; the operation continues')
    .argParser(integerFrom(1))
    .default(600)
}

/** Parses a whole number of at least `min`, and at most `max`. */
export function integerFrom(min: number, max = Number.MAX_SAFE_INTEGER): (text: string) => number {
  const limit = max < Number.MAX_SAFE_INTEGER ? `from ${min} to ${max}` : `of at least ${min}`
  return (text) => {
    const value = Number(text)
    if (/^\d+$/.test(text) && Number.isSafeInteger(value) && value >= min && value <= max) return value
    throw new InvalidArgumentError(`It must be a whole number ${limit}.`)
  }
}

// Only its type: this program starts faster without the contract's schemas.
const longestSecs: typeof execTimeoutLongestSecs = 31_536_000

/** How long a command may take; the help states what is checked. */
export function execTimeout(): Option {
  const limit = `at most ${longestSecs}`
  return new Option('--timeout-secs <n>', `kill it after this long awake (default: never; ${limit})`).argParser(
    integerFrom(1, longestSecs),
  )
}

/** Parses a date or a time, without a time zone in UTC; returns milliseconds since 1970. */
export function timeFrom(text: string): number {
  const ms = Date.parse(/\dT\d.*(Z|[+-]\d\d:?\d\d)$/.test(text) || !text.includes('T') ? text : `${text}Z`)
  if (Number.isFinite(ms)) return ms
  throw new InvalidArgumentError('It must be a date or a time, such as 2026-01-31 or 2026-01-31T12:00:00Z.')
}

const units = { s: 1, m: 60, h: 3_600, d: 86_400 }

/** Parses a time such as 90s, 45m or 2h; returns seconds, at most a day. */
export const durationSecs = (text: string): number =>
  durationWithin(text, 86_400, 'between 1s and 24h, such as 90s, 45m or 2h')

/** The same for up to ten years, such as 30d. */
export const longDurationSecs = (text: string): number =>
  durationWithin(text, 315_360_000, 'between 1s and 3650d, such as 45m, 12h or 30d')

function durationWithin(text: string, mostSecs: number, form: string): number {
  const [, count, unit] = /^(\d{1,9})([smhd])$/.exec(text) ?? []
  const secs = Number(count) * units[unit as keyof typeof units]
  if (secs >= 1 && secs <= mostSecs) return secs
  throw new InvalidArgumentError(`It must be ${form}.`)
}

/** Prints a note when a given key was used before: a silent success would hide a mistake. */
export function replayNote({ terminal }: Context, { idempotencyKey }: KeyOption) {
  let isNoted = idempotencyKey === undefined
  return ({ status, headers }: { status: number; headers: Headers }) => {
    if (isNoted || status >= 400) return
    isNoted = true
    const replayed = headers.get('idempotency-replayed')
    if (replayed === 'true') terminal.note('This key was used before; this is the earlier result.')
    if (replayed === 'mismatch')
      terminal.note(
        'This key was used before for a different request; nothing was done, and this is the earlier result.',
      )
  }
}

/** The compiler holds them to the SDK's type. */
const eventTypes: Record<EventJson['type'], true> = {
  ...{ 'desktop.state': true, 'desktop.moved': true, 'desktop.copied': true },
  ...{ 'desktop.destroy_soon': true, 'desktop.schedule_skipped': true },
  ...{ 'desktop.out_of_memory': true, 'desktop.disk_full': true },
  ...{ 'operation.pending': true, 'operation.running': true, 'operation.succeeded': true, 'operation.failed': true },
  ...{ 'claim.taken': true, 'claim.connected': true, 'claim.disconnected': true, 'claim.released': true },
  ...{ 'wake_lock.taken': true, 'wake_lock.renewed': true, 'wake_lock.released': true, 'wake_lock.expired': true },
  ...{
    'key.created': true,
    'key.revoked': true,
    'webhook.disabled': true,
    'events.left_out': true,
    'deliveries.left_out': true,
  },
}

/** Chooses events by their types; can be given several times. */
export function eventTypesOption(): Option {
  const known = Object.keys(eventTypes)
  const parse = (type: string, before: string[] | undefined): string[] => {
    if (!known.includes(type))
      throw new InvalidArgumentError(
        `There is no such type${didYouMean(type, known)} The types are ${known.join(', ')}.`,
      )
    return [...(before ?? []), type]
  }
  return new Option('--type <type...>', 'only events of these types, such as desktop.state').argParser(parse)
}
