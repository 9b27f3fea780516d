// Guarantee: whatever is wrong with the database, `check`, `init` and the service itself each say it in one sentence with what to do.
// What may pass by itself is waited for.
import { execFileSync, spawn } from 'node:child_process'
import { chmodSync, mkdtempSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { checksOf } from '@dormouse/control-plane/check.ts'
import { configSchema } from '@dormouse/control-plane/config.ts'
import { startControlPlane } from '@dormouse/control-plane/context.ts'
import { ArmedFailpoints, createLog, readConfig, runChecks } from '@dormouse/process'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { isRoot } from '../../scripts/testbed/namespaces.ts'
import { freePort } from '../free-port.ts'
import { Authority } from '../real/parts/authority.ts'
import { databaseNamed, query, templateName } from '../setup/postgres.ts'
import { waitFor } from '../wait-for.ts'
import { type OwnPostgres, ownPostgres } from './parts/own-postgres.ts'

const main = fileURLToPath(new URL('../../apps/control-plane/src/main.ts', import.meta.url))
const small = mkdtempSync(join(tmpdir(), 'dormouse-small-'))
let own: OwnPostgres
beforeAll(async () => {
  // The server sees it only if it is there before.
  if (isRoot()) {
    chmodSync(small, 0o755)
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=32m', 'tmpfs', small])
    execFileSync('chown', ['nobody', small])
  }
  own = await ownPostgres()
})
afterAll(async () => {
  await own?.[Symbol.asyncDispose]()
  if (isRoot()) execFileSync('umount', [small])
  rmSync(small, { recursive: true })
})

const configOf = (env: Record<string, string>) => readConfig(configSchema, env)
const named = (name: string) => databaseNamed(own.postgres.url, name)

/** What the check found wrong with it, by name. */
async function checked(url: string) {
  const lines: string[] = []
  await runChecks(
    checksOf(() => configOf({ DATABASE_URL: url })),
    true,
    (line) => lines.push(line),
  )
  const { checks } = JSON.parse(lines[0]!) as {
    checks: { name: string; result: string; detail: string; remedy: string }[]
  }
  const wrong = checks.filter(({ result }) => result === 'failed')
  return Object.fromEntries(wrong.map(({ name, detail, remedy }) => [name, `${detail}; ${remedy}`]))
}

/** How the program ends, and the last that it says. */
async function run(words: string[], env: Record<string, string>, inside: string[] = []) {
  const [command, ...rest] = [...inside, process.execPath, main, ...words]
  const child = spawn(command!, rest, { env: { PATH: process.env.PATH!, ...env } })
  const closed = new Promise<number>((resolve) => child.on('close', resolve))
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)])
  const said = (stdout + stderr).trim()
  expect(said).not.toMatch(/\n +at |\\n +at /)
  return { code: await closed, said }
}

/** A service that begins to start: how it ends, and the reasons that it logs meanwhile. */
async function starting(url: string) {
  const reasons: string[] = []
  const write = (line: string) => {
    const { level, why, err, msg } = JSON.parse(line)
    if (level >= 40) reasons.push(err ? `an error: ${err.message}` : (why ?? msg))
  }
  const log = createLog({ name: 'test', destination: { write } })
  const stop = new AbortController()
  const config = configOf({ DATABASE_URL: url, PORT: String(await freePort()) })
  const started = startControlPlane(config, log, new ArmedFailpoints(), stop.signal)
  started.catch(() => undefined)
  return { reasons, started, stop: () => stop.abort(new Error('stopped')) }
}

const couldNot = (why: RegExp) => ({ code: 1, said: expect.stringMatching(new RegExp(`"why":"${why.source}`)) })

test('read-only', async () => {
  await query(own.postgres.url, 'create database readonly')
  await query(own.postgres.url, 'alter database readonly set default_transaction_read_only = on')
  const url = named('readonly')
  const sentence = /the database is read-only; name its primary in DATABASE_URL/
  const [found, initialised] = await Promise.all([checked(url), run(['init'], { DATABASE_URL: url })])
  expect(found).toEqual({ database: 'readonly is read-only; name the primary in DATABASE_URL' })
  expect(initialised).toEqual(couldNot(sentence))
  // With a schema, too: the service starts, and waits until it can lead.
  await query(own.postgres.url, `create database standby template ${templateName}`)
  await query(own.postgres.url, 'alter database standby set default_transaction_read_only = on')
  const { reasons, started } = await starting(named('standby'))
  const service = await started
  await waitFor('a reason', () => reasons.length > 0)
  await query(own.postgres.url, 'alter database standby set default_transaction_read_only = off')
  // Sessions keep the setting with which they began.
  await query(own.postgres.url, `select pg_terminate_backend(pid) from pg_stat_activity where datname = 'standby'`)
  await waitFor('leadership', () => service.leadership.term)
  expect(reasons.filter((why) => sentence.test(why))).toHaveLength(1)
  expect(reasons.filter((why) => why.includes('cannot execute'))).toEqual([])
  await service.close()
})

test('full', async (context) => {
  context.skip(!isRoot(), 'only root makes a small file system')
  await query(own.postgres.url, `create tablespace small location '${small}'`)
  await query(own.postgres.url, 'create database "full" tablespace small')
  const rest = join(small, 'rest')
  for (let block = 2 ** 20; block >= 4096; block /= 2)
    try {
      for (;;) writeFileSync(rest, Buffer.alloc(block), { flag: 'a' })
    } catch (error) {
      expect(error).toMatchObject({ code: 'ENOSPC' })
    }
  // A connection still fits.
  truncateSync(rest, statSync(rest).size - 2 ** 20)
  const url = named('full')
  const sentence = /the database has no space left: could not .*: No space left on device; free some on its disk/
  expect(await checked(url)).toEqual({ space: expect.stringMatching(sentence) })
  expect(await run(['init'], { DATABASE_URL: url })).toEqual(couldNot(sentence))
  const { reasons, started } = await starting(url)
  await waitFor('the reason', () => reasons.some((why) => sentence.test(why)))
  rmSync(rest)
  await (await started).close()
})

test('with a wrong certificate', async () => {
  using authority = await Authority.create()
  using other = await Authority.create()
  const url = (host: string, { file }: Authority) => {
    const at = new URL(own.postgres.url)
    at.hostname = host
    at.search = `sslmode=verify-full&sslrootcert=${file}`
    return at.href
  }
  const expectWrong = async (at: string, sentence: RegExp) => {
    expect(await checked(at)).toEqual({ database: expect.stringMatching(sentence) })
    await expect((await starting(at)).started).rejects.toThrow(sentence)
  }
  await own.offerTls(await authority.issue('DNS:localhost'))
  expect(await checked(url('localhost', authority))).toEqual({})
  await expectWrong(url('localhost', other), /is not signed by the authority .*; set sslrootcert to/)
  await expectWrong(url('127.0.0.1', authority), /does not name the host .*; use a host name that it names/)
  await own.offerTls(await authority.issueEnded('DNS:localhost'))
  await expectWrong(url('localhost', authority), /is not valid now .*; renew it, or correct the clock/)
})

test('without rights', async () => {
  await query(own.postgres.url, `create role guest login password 'guest'`)
  await query(own.postgres.url, `create database owned template ${templateName}`)
  const asGuest = (name: string) => named(name).replace(/\/\/.*@/, '//guest:guest@')
  const sentence = /permission denied for \w+ \w+; give that right to the user in DATABASE_URL/
  const [found, initialised] = await Promise.all([
    checked(asGuest('dormouse')),
    run(['init'], { DATABASE_URL: asGuest('dormouse') }),
  ])
  expect(found).toEqual({ rights: expect.stringContaining('let the user own the database') })
  expect(initialised).toEqual(couldNot(sentence))
  for (const name of ['dormouse', 'owned'])
    await expect((await starting(asGuest(name))).started).rejects.toThrow(sentence)
})

test('too old', async () => {
  await query(own.postgres.url, 'create database old')
  const url = named('old')
  // No older server is at hand: this one answers as one.
  await query(url, 'create schema older')
  await query(
    url,
    `create function older.current_setting(name text) returns text language sql
       return case name when 'server_version' then '13.22' else pg_catalog.current_setting(name) end`,
  )
  await query(own.postgres.url, 'alter database old set search_path = older, pg_catalog')
  const sentence = 'the database is Postgres 13.22; upgrade it to Postgres 14 or later'
  const ended = await Promise.all(['init', 'migrate'].map((word) => run([word], { DATABASE_URL: url })))
  for (const each of ended) expect(each).toEqual(couldNot(new RegExp(sentence)))
  expect(await checked(url)).toEqual({ database: sentence })
  await expect((await starting(url)).started).rejects.toThrow(sentence)
})

test('away, and without a network', async () => {
  const away = `postgres://u:p@127.0.0.1:${await freePort()}/d`
  expect(await checked(away)).toEqual({
    database: expect.stringMatching(/cannot be reached: .*ECONNREFUSED.*; start it, or correct DATABASE_URL/),
  })
  const env = { DATABASE_URL: 'postgres://u:p@db.example/d', OIDC_ISSUER: 'https://login.example', OIDC_AUDIENCE: 'us' }
  const { code, said } = await run(['check'], env, ['unshare', ...(isRoot() ? [] : ['--map-root-user']), '--net'])
  expect([code, said]).toEqual([
    1,
    expect.stringMatching(/cannot be reached: .*\n +→ check the network and the resolver of this machine, or correct/),
  ])
  expect(said).toMatch(/issuer +the keys of .* cannot be read: .*\n +→ correct .* or let this machine reach it/)
})

test('a clock that is an hour ahead, and a disk with 100 MiB left', async (context) => {
  const hour = `const now = Date.now; Date.now = () => now() + 3_600_000`
  const ahead = { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(hour)}` }
  const env = { DATABASE_URL: own.postgres.url }
  const smallDisk = ['unshare', '--mount', 'sh', '-c', 'mount -t tmpfs -o size=100m tmpfs /var/lib && exec "$@"', 'sh']
  context.skip(!isRoot(), 'only root makes a small file system')
  const { code, said } = await run(['check'], { ...env, ...ahead }, smallDisk)
  expect(code).toBe(1)
  expect(said).toMatch(/FAILED +clock +3\d{3}\.?\d* s ahead of the database's\n +→ set the clock/)
  expect(said).toMatch(/warning +disk +100 MiB free at \/var\/lib\n +→ free some/)
  expect(said).toMatch(/ok +space/)
})
