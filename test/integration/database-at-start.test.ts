// Guarantee: a control plane waits for its database as long as it takes, says so to health checks and in its log, and stops
// at once when asked to. If waiting would not help, it ends, and its last line says what to correct.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { configSchema } from '@dormouse/control-plane/config.ts'
import { type ControlPlane, startControlPlane } from '@dormouse/control-plane/context.ts'
import { ArmedFailpoints, createLog, readConfig, release } from '@dormouse/process'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { freePort } from '../free-port.ts'
import { plainFetch } from '../openapi.ts'
import { query } from '../setup/postgres.ts'
import { waitFor } from '../wait-for.ts'
import { type OwnPostgres, ownPostgres } from './parts/own-postgres.ts'
import { underUnit } from './parts/restricted.ts'

let own: OwnPostgres
beforeAll(async () => {
  own = await ownPostgres()
})
afterAll(async () => {
  await own?.[Symbol.asyncDispose]()
})

/** A control plane that begins to start, and the reasons for which it said that it waits. */
function starting(databaseUrl: string, port: number, signal?: AbortSignal) {
  const waits: string[] = []
  const write = (line: string) => {
    const { msg, why } = JSON.parse(line)
    if (msg === 'waiting for the database') waits.push(why)
  }
  const config = readConfig(configSchema, { DATABASE_URL: databaseUrl, PORT: String(port) })
  const log = createLog({ name: 'test', destination: { write } })
  const started = startControlPlane(config, log, new ArmedFailpoints(), signal)
  started.catch(() => undefined)
  return { waits, started, url: `http://127.0.0.1:${port}` }
}

/** The answer to a request; undefined while nobody listens. */
const ask = async (url: string, init?: RequestInit) => {
  const answer = await plainFetch(url, init).catch(() => undefined)
  return answer && { status: answer.status, headers: answer.headers, json: JSON.parse(await answer.text()) }
}

async function expectWaiting(url: string, path: string, init?: RequestInit) {
  return waitFor(`${path} while it waits`, () => ask(url + path, init))
}

test('it listens before its database is there, tells health checks and clients to wait, and starts when it comes', async () => {
  await own.postgres.stop()
  let started: ControlPlane | undefined
  try {
    const replica = starting(own.postgres.url, await freePort())
    expect(await expectWaiting(replica.url, '/readyz')).toMatchObject({
      status: 503,
      json: { status: 'not ready', waits_for: 'database', database: false, leader: false, leads: false },
    })
    expect(await expectWaiting(replica.url, '/healthz')).toMatchObject({ status: 200, json: { status: 'ok' } })
    const body = 'x'.repeat(1024 * 1024)
    const refused = await expectWaiting(replica.url, '/v1/desktops?x=1', { method: 'POST', body })
    expect(refused).toMatchObject({ status: 503, json: { status: 503, code: 'database_unavailable' } })
    expect(refused.headers.get('retry-after')).toBe('2')
    expect(refused.headers.get('content-type')).toBe('application/problem+json')
    await waitFor('the line of the log', () => replica.waits.length === 1)
    expect(replica.waits[0]).toContain('ECONNREFUSED')
    await own.postgres.restart()
    started = await replica.started
    expect(started.url).toBe(replica.url)
    await waitFor('readiness', async () => (await ask(`${replica.url}/readyz`))?.status === 200)
  } finally {
    await started?.close()
    await own.postgres.restart().catch(() => undefined)
  }
})

test('a database that is frozen is waited for, and the wait ends at once when the process is to stop', async () => {
  own.still('SIGSTOP')
  try {
    const stop = new AbortController()
    const replica = starting(own.postgres.url, await freePort(), stop.signal)
    await waitFor('the line of the log', () => replica.waits.length > 0)
    stop.abort(new Error('stopped'))
    await expect(replica.started).rejects.toThrow()
    expect(await ask(`${replica.url}/readyz`)).toBeUndefined()
  } finally {
    own.still('SIGCONT')
  }
})

test('a read-only database whose schema is behind is waited for', async () => {
  await query(own.postgres.url, 'create database standby')
  await query(own.postgres.url, 'alter database standby set default_transaction_read_only = on')
  const standby = new URL(own.postgres.url)
  standby.pathname = '/standby'
  const replica = starting(standby.href, await freePort())
  await waitFor('the line of the log', () => replica.waits.length === 1)
  expect(replica.waits[0]).toContain('standby')
  await query(own.postgres.url, 'alter database standby set default_transaction_read_only = off')
  await (await replica.started).close()
})

const withCa = (ca: string) => changed((url) => (url.search = `sslmode=verify-full&sslrootcert=${ca}`))()

const changed = (change: (url: URL) => void) => () => {
  const url = new URL(own.postgres.url)
  change(url)
  return url.href
}

test.each<[string, () => string, RegExp]>([
  ['a wrong password', changed((url) => (url.password = 'wrong')), /refused the login: password .*; correct/],
  ['an unknown user', changed((url) => (url.username = 'nobody')), /refused the login: .*; correct/],
  ['no password', changed((url) => (url.password = '')), /password.*; (add|correct)/],
  ['a missing database', changed((url) => (url.pathname = '/nothere')), /"nothere" does not exist; create it/],
  ['no TLS', changed((url) => (url.search = 'sslmode=verify-full')), /offers no TLS.*; set ssl = on/],
  ['a URL that is none', () => 'postgres://u:hunter2@h:x/d', /^DATABASE_URL is not a valid URL; write it as/],
  ['a missing certificate', () => withCa('/no/such.pem'), /^sslrootcert .*\/no\/such\.pem, .*; create it/],
  ['a folder as a certificate', () => withCa(tmpdir()), /^sslrootcert .*not a file; name the PEM file/],
  [
    'text as a certificate',
    () => withCa(import.meta.filename),
    /^sslrootcert .* has no certificate in PEM format; name/,
  ],
])('%s ends the start with what to correct', async (_what, url, why) => {
  const replica = starting(url(), await freePort())
  const error: Error = await replica.started.then(
    () => expect.unreachable(),
    (failed) => failed,
  )
  expect(error).toMatchObject({ name: 'StartError', message: expect.stringMatching(why) })
  expect(error.message).not.toContain('hunter2')
  expect(replica.waits).toEqual([])
})

test('an address or a port that it cannot have ends the start, also while it waits', async () => {
  const { port } = new URL(own.postgres.url)
  const inUse = /^port \d+ of 127\.0\.0\.1 is in use by another program; end that, or set PORT/
  await expect(starting(own.postgres.url, Number(port)).started).rejects.toThrow(inUse)
  const nowhere = `postgres://u:p@127.0.0.1:${await freePort()}/d`
  await expect(starting(nowhere, Number(port)).started).rejects.toThrow(inUse)
  const elsewhere = { DATABASE_URL: own.postgres.url, PORT: '0', DORMOUSE_HOST: '192.0.2.1' }
  const log = createLog({ name: 'test', level: 'silent' })
  await expect(startControlPlane(readConfig(configSchema, elsewhere), log, new ArmedFailpoints())).rejects.toThrow(
    /^this machine has no address 192\.0\.2\.1; set DORMOUSE_HOST/,
  )
})

const root = join(import.meta.dirname, '../..')
const main = join(root, 'apps/control-plane/src/main.ts')

test('under the sockets that its unit allows, it listens on every address', async () => {
  const port = await freePort()
  const env = { DORMOUSE_HOST: '0.0.0.0', PORT: String(port), DORMOUSE_PUBLIC_URL: 'http://127.0.0.1:1' }
  const unit = join(root, 'infra/systemd/dormouse-control-plane.service')
  const [command, ...words] = underUnit(unit, [process.execPath, main])
  const child = spawn(command!, words, { env: { PATH: process.env.PATH!, ...env, DATABASE_URL: own.postgres.url } })
  const said = text(child.stdout)
  try {
    await waitFor('readiness', async () => {
      if (child.exitCode !== null) throw new Error(await said)
      return (await ask(`http://127.0.0.1:${port}/readyz`))?.status === 200
    })
  } finally {
    child.kill('SIGTERM')
    await said
  }
})

/** The program itself: how it ends, and what it says. */
async function ended(words: string[], env: Record<string, string>, then?: (child: ReturnType<typeof spawn>) => void) {
  const child = spawn(process.execPath, [main, ...words], { env: { PATH: process.env.PATH!, ...env } })
  then?.(child)
  const [said, erred] = await Promise.all([text(child.stdout), text(child.stderr)])
  if (child.exitCode === null && child.signalCode === null) await once(child, 'close')
  const lines = (said + erred).trim().split('\n')
  return { code: child.exitCode, last: lines.at(-1)!, lines }
}

test('a misspelt setting is named, with the nearest one, and stops nothing; SIGTERM ends the wait with 0', async () => {
  const env = { DATABASE_URL: `postgres://u:p@127.0.0.1:${await freePort()}/d`, PORT: String(await freePort()) }
  const { code, lines } = await ended([], { ...env, DORMOUSE_PUBLIC_ULR: 'http://x' }, (child) =>
    child.stdout!.on('data', (line: Buffer) => {
      if (line.includes('waiting for the database')) child.kill('SIGTERM')
    }),
  )
  expect(JSON.parse(lines[0]!)).toMatchObject({ msg: 'starting', version: release.version, commit: 'sources' })
  expect(lines[1]).toContain('DORMOUSE_PUBLIC_ULR is not a setting of this program')
  expect(lines[1]).toContain('DORMOUSE_PUBLIC_URL')
  expect(code).toBe(0)
})

test('each way to call the program ends as it should, and a failed start with its reason', async () => {
  const nowhere = `postgres://u:p@127.0.0.1:${await freePort()}/d`
  const ways: [string[], number, RegExp][] = [
    [['--version'], 0, /^\d+\.\d+\.\d+$/],
    [
      ['operator-key'],
      1,
      /"could not start".*|.*the database cannot be reached: .*ECONNREFUSED.*; start it, or correct/,
    ],
  ]
  const runs = await Promise.all(ways.map(([words]) => ended(words, { DATABASE_URL: nowhere })))
  for (const [at, [words, code, last]] of ways.entries())
    expect(runs[at], words.join(' ')).toMatchObject({ code, last: expect.stringMatching(last) })
  const { code, last } = await ended([], { DATABASE_URL: withCa('/no/such.pem') })
  expect(code).toBe(1)
  expect(last).toMatch(/sslrootcert .*create it.*"could not start"/)
  expect(last).not.toContain('"stack"')
})
