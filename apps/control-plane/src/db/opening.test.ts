// Guarantee: a start waits for a database that may come by itself, and for nothing else.
import { createLog, StartError } from '@dormouse/process'
import { expect, test } from 'vitest'
import { explained, requireVersion, whenAvailable } from './opening.ts'
import type { Db } from './pool.ts'

const log = createLog({ name: 'test', level: 'silent' })
const failure = (facts: object, message = 'as the server says it') => Object.assign(new Error(message), facts)

/** Whether it waits after this failure, or what it ends with. */
async function after(error: unknown): Promise<unknown> {
  const stop = new AbortController()
  const waits = async () => stop.abort()
  const open = () => Promise.reject(error)
  const ended: Error = await whenAvailable(open, { log, signal: stop.signal, waits }).catch((failed) => failed)
  return stop.signal.aborted ? 'it waits' : ended.message
}

test.each([
  { code: 'ECONNREFUSED' },
  { code: 'EHOSTUNREACH' },
  { code: 'ENETUNREACH' },
  { code: 'ETIMEDOUT' },
  { code: 'ENOTFOUND' },
  { code: 'EAI_AGAIN' },
  { code: 'ECONNRESET' },
  { code: 'ENOENT', syscall: 'connect' },
  { code: '57P03' },
  { code: '57P01' },
  { code: '53300' },
  { code: '25006' },
  { code: '53100' },
])('it waits after %o, also in the middle of a migration', async (facts) => {
  expect(await after(failure(facts))).toBe('it waits')
  expect(await after(new Error('migration 0001-first.sql failed', { cause: failure(facts) }))).toBe('it waits')
})

test.each(['timeout expired', 'Connection terminated unexpectedly', 'Query read timeout'])(
  'it waits after "%s"',
  async (message) => {
    expect(await after(new Error(message))).toBe('it waits')
  },
)

test.each([
  [{ code: '28P01' }, /refused the login: as the server says it; correct/],
  [{ code: '28000' }, /refused the login: as the server says it; correct .*pg_hba\.conf/],
  [{ code: '3D000' }, /as the server says it; create it, or correct DATABASE_URL/],
  [{ code: '42501' }, /as the server says it; give that right/],
  [{ code: 'EACCES', syscall: 'connect' }, /socket .*correct DATABASE_URL/],
  [{ code: 'CERT_HAS_EXPIRED' }, /not valid now .*renew it/],
  [{ code: 'ERR_TLS_CERT_ALTNAME_INVALID' }, /does not name the host/],
])('%o ends it with what to correct', async (facts, sentence) => {
  expect(await after(failure(facts))).toMatch(sentence)
  expect(explained(failure(facts))).toBeInstanceOf(StartError)
})

test('a bug ends it as it is', async () => {
  expect(await after(failure({ code: '42601' }, 'syntax error'))).toBe('syntax error')
})

test('a name with several addresses says why for each', () => {
  const each = ['::1', '127.0.0.1'].map((address) => failure({ code: 'ECONNREFUSED' }, `refused by ${address}`))
  const both = Object.assign(new AggregateError(each), { code: 'ECONNREFUSED' })
  expect((explained(both) as Error).message).toContain('refused by ::1, refused by 127.0.0.1; start it')
})

test.each([
  ['18.4', true],
  ['14.0 (Debian 14.0-1)', true],
  ['13.22', false],
  ['9.6.24', false],
])('Postgres %s: %s', async (version, isGood) => {
  const db = { query: async () => ({ rows: [{ version }] }) } as unknown as Db
  const result = requireVersion(db).then(
    () => true,
    (error) => error instanceof StartError && /upgrade it to Postgres 14/.test(error.message) && false,
  )
  expect(await result).toBe(isGood)
})
