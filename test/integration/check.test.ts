// Guarantee: before a control plane is started, `check` finds what it would fail by, with a remedy each, and `init` makes the schema
// and the first operator key, once.
import { spawn } from 'node:child_process'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { expect, inject, test } from 'vitest'
import { databaseNamed, query } from '../setup/postgres.ts'
import { Database } from './parts/database.ts'

const main = fileURLToPath(new URL('../../apps/control-plane/src/main.ts', import.meta.url))
const server = inject('databaseUrl')

async function run(words: string[], env: Record<string, string>) {
  const child = spawn(process.execPath, [main, ...words], { env: { PATH: process.env.PATH!, ...env } })
  const code = new Promise<number | null>((resolve) => child.on('close', resolve))
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)])
  return { code: await code, stdout, stderr }
}

interface Report {
  ok: boolean
  checks: { name: string; result: string; detail: string; remedy?: string }[]
}

/** What did not pass, by name, and whether all did. */
async function checked(env: Record<string, string>) {
  const { code, stdout, stderr } = await run(['check', '--json'], {
    DORMOUSE_PUBLIC_URL: 'https://127.0.0.1:9',
    ...env,
  })
  expect(stderr).toBe('')
  const { ok, checks } = JSON.parse(stdout) as Report
  expect(code).toBe(ok ? 0 : 1)
  for (const { result, remedy } of checks) expect(remedy === undefined).toBe(result === 'ok')
  return Object.fromEntries(checks.filter(({ result }) => result !== 'ok').map((each) => [each.name, each.detail]))
}

test('an empty database is ready; init makes the schema and prints one key, once', async () => {
  const database = await Database.empty(server)
  const env = { DATABASE_URL: database.url }
  // Nobody answers at the public URL yet.
  expect(Object.keys(await checked(env))).toEqual(['public URL'])
  const first = await run(['init'], env)
  expect([first.code, first.stdout]).toEqual([0, expect.stringMatching(/^svc_op_\S+\n$/)])
  const second = await run(['init'], env)
  expect([second.code, second.stdout]).toEqual([0, ''])
  expect(second.stderr).toContain('operator keys already')
  const rows = await run(['check'], env)
  expect(rows.stdout).toMatch(/^ok {7}schema {7}up to date$/m)
  await database.drop()
})

test('a database that cannot serve is refused with the reason', async () => {
  const named = (name: string) => databaseNamed(server, name)
  await query(server, `create database latin encoding 'latin1' locale_provider libc locale 'C' template template0`)
  await query(server, `create role guest login password 'guest' connection limit 10`)
  await query(server, 'create database closed')
  const asGuest = new URL(named('closed'))
  asGuest.username = 'guest'
  asGuest.password = 'guest'
  const [latin, guest, nowhere] = await Promise.all(
    [named('latin'), asGuest.href, named('nowhere')].map((url) => checked({ DATABASE_URL: url })),
  )
  expect(latin).toMatchObject({ encoding: 'the database has the encoding LATIN1' })
  expect(guest).toMatchObject({
    rights: expect.stringContaining('may not create tables'),
    connections: expect.stringMatching(/^10 allowed, 0 used by others, 20 for each replica/),
  })
  expect(nowhere).toMatchObject({ database: 'database "nowhere" does not exist' })
  for (const name of ['latin', 'closed']) await query(server, `drop database ${name}`)
  await query(server, 'drop role guest')
})

test('settings and an issuer that are wrong are named', async () => {
  const database = await Database.empty(server)
  expect(await checked({ PORT: 'x' })).toEqual({
    settings: expect.stringMatching(/^(DATABASE_URL is not set|PORT is "x")/),
  })
  await using issuer = createServer((_request, response) => void response.writeHead(404).end())
  await new Promise<void>((resolve) => issuer.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(issuer.address() as AddressInfo).port}`
  const found = await checked({ DATABASE_URL: database.url, OIDC_ISSUER: url, OIDC_AUDIENCE: 'us', DORMOUSE_PROT: '1' })
  expect(found).toMatchObject({
    settings: expect.stringContaining('DORMOUSE_PROT is not a setting'),
    issuer: expect.stringContaining(`the keys of ${url} cannot be read`),
  })
  await database.drop()
})
