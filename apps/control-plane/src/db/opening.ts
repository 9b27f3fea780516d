// Opens the database at the start. Decides which failures to wait for, and which end the start with a sentence about what to
// correct. Knows no table.
import { setTimeout as sleep } from 'node:timers/promises'
import { type Log, StartError } from '@dormouse/process'
import { tlsSentence } from './certificates.ts'
import { type Db, isDatabaseUnavailable, sqlState } from './pool.ts'

const retryMs = 1_000
const remindEveryMs = 30_000

export interface Waiting {
  log: Log
  /** Ends the wait at once. */
  signal: AbortSignal | undefined
  /** Called once, when the database could not be opened at the first attempt. */
  waits(): Promise<void>
}

/** Calls `open` until it succeeds. Throws a StartError if waiting would not help. */
export async function whenAvailable<T>(open: () => Promise<T>, { log, signal, waits }: Waiting): Promise<T> {
  let hasWaited = false
  const say = remindingly((why) => log.warn({ why }, 'waiting for the database'))
  for (;;) {
    signal?.throwIfAborted()
    try {
      return await unlessAborted(open(), signal)
    } catch (error) {
      signal?.throwIfAborted()
      const why = whyWait(error)
      if (why === undefined) throw explained(error)
      if (!hasWaited) await waits()
      hasWaited = true
      say(why)
    }
    await sleep(retryMs, undefined, { signal })
  }
}

/** Says the same thing again only after a while. */
export function remindingly(say: (why: string) => void): (why: string) => void {
  let said: string | undefined
  let saidAt = 0
  return (why) => {
    const now = performance.now()
    if (why === said && now - saidAt < remindEveryMs) return
    said = why
    saidAt = now
    say(why)
  }
}

/** An attempt that hangs is abandoned: the process ends anyway. */
function unlessAborted<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return work
  const { promise, reject } = Promise.withResolvers<never>()
  const abort = () => reject(signal.reason)
  signal.addEventListener('abort', abort)
  return Promise.race([work, promise]).finally(() => signal.removeEventListener('abort', abort))
}

/** Why the database may be usable later; undefined if somebody has to correct something first. */
function whyWait(failure: unknown): string | undefined {
  const error = rootOf(failure)
  if (!error || tlsSentence(error)) return undefined
  const { code, syscall } = error as NodeJS.ErrnoException
  // The missing thing is a file, such as a certificate, not a socket.
  if (code === 'ENOENT' && syscall !== 'connect') return undefined
  // A standby: a failover may be under way, and it becomes the primary.
  if (code === '25006') return 'the database is a read-only standby; its primary may take over'
  return code === diskFull || isDatabaseUnavailable(error) ? sentenceFor(error) : undefined
}

/** The cause of a failed migration; any other error itself. */
const rootOf = (error: unknown): Error | undefined =>
  error instanceof Error ? (error.cause instanceof Error ? error.cause : error) : undefined

/** A name with several addresses fails with one error per address, and has no message of its own. */
const textOf = (error: Error): string =>
  error.message || (error instanceof AggregateError && error.errors.map(textOf).join(', ')) || String(sqlState(error))

/** The same error, or a StartError with what to correct. */
export function explained(failure: unknown): unknown {
  const error = rootOf(failure)
  const sentence = error && (tlsSentence(error) ?? sentenceFor(error))
  return sentence === undefined ? failure : new StartError(sentence, { cause: failure })
}

/** The statements use features of this version. The tests run on the newest one. */
const leastVersion = 14

/** Throws if the server is older than the statements need. */
export async function requireVersion(db: Db): Promise<void> {
  const { rows } = await db.query<{ version: string }>(`select current_setting('server_version') as version`)
  const { version } = rows[0]!
  if (Number.parseInt(version, 10) < leastVersion)
    throw new StartError(`the database is Postgres ${version}; upgrade it to Postgres ${leastVersion} or later`)
}

function sentenceFor(error: Error): string | undefined {
  const { message } = error
  const known = sentences[sqlState(error) ?? '']
  if (known) return known(message)
  if (/^SASL: .*password/.test(message)) return 'DATABASE_URL has no password, and the database asks for one; add it'
  if (!isDatabaseUnavailable(error)) return undefined
  const remedy = noNetwork.test(sqlState(error) ?? '')
    ? 'check the network and the resolver of this machine'
    : 'start it'
  return `the database cannot be reached: ${textOf(error)}; ${remedy}, or correct DATABASE_URL`
}

const noNetwork = /^(ENETUNREACH|EHOSTUNREACH|ETIMEDOUT|EAI_AGAIN|ENOTFOUND)$/
const diskFull = '53100'

const sentences: Readonly<Record<string, (message: string) => string>> = {
  '28P01': (message) => `the database refused the login: ${message}; correct the user or password in DATABASE_URL`,
  '28000': (message) =>
    `the database refused the login: ${message}; correct DATABASE_URL, or pg_hba.conf on the server`,
  '3D000': (message) => `${message}; create it, or correct DATABASE_URL`,
  '42501': (message) => `${message}; give that right to the user in DATABASE_URL`,
  [diskFull]: (message) => `the database has no space left: ${message}; free some on its disk`,
  '25006': () => 'the database is read-only; name its primary in DATABASE_URL',
  EACCES: (message) =>
    `the socket of the database cannot be opened: ${message}; correct DATABASE_URL, or its permissions`,
  ERR_INVALID_URL: () =>
    'DATABASE_URL is not a valid URL; write it as postgres://user:password@host:5432/dormouse, and special characters of the password percent-encoded, such as %40 for @',
}
