// Guarantee: this release works with agents, replicas and a schema of the one before and of the one after, and they with ours.
// Replicas and hosts go to the next release, back, and to it again while customers work; nothing is lost, and nothing fails for
// good.
import { once } from 'node:events'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { type IncomingMessage, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { json } from 'node:stream/consumers'
import { openPool } from '@dormouse/control-plane/db/pool.ts'
import { Principals } from '@dormouse/control-plane/principals/service.ts'
import { createLog, release } from '@dormouse/process'
import { expect, inject, onTestFinished, test } from 'vitest'
import { Fleet } from '../compat/fleet.ts'
import { Load } from '../compat/load.ts'
import { buildReleases, type Release } from '../compat/releases.ts'
import { waitFor } from '../wait-for.ts'
import { Database } from './parts/database.ts'

const customers = 4

test('replicas and hosts go to the next release, back, and forward again, twice, one at a time, while customers work', {
  timeout: 400_000,
}, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'dormouse-compat-'))
  const database = await Database.create(inject('databaseUrl'))
  const { operatorKey, apiKey } = await keysOf(database.url)
  const fleet = new Fleet({ folder, databaseUrl: database.url, operatorKey })
  onTestFinished(async () => {
    await fleet.stop()
    await database.drop()
    rmSync(folder, { recursive: true, force: true })
  })
  const { last, here, next } = await buildReleases(join(folder, 'releases'))
  // Otherwise the database could not say which of both may lead.
  if (last.version === here.version) expect(migrationsOf(here), 'set the next version').toEqual(migrationsOf(last))
  for (let at = 0; at < 2; at++) await fleet.addReplica(last)
  for (let at = 0; at < 2; at++) await fleet.addHost(last)

  const load = new Load(fleet.urls, apiKey)
  for (let at = 0; at < customers; at++) await load.add()
  let limited: string | undefined
  const goesOn = async () => {
    if (limited) await expectLimited(fleet.urls, limited)
    const before = load.rounds
    await waitFor('each customer to go on', () => load.rounds.every((rounds, at) => rounds > before[at]!))
  }
  await goesOn()
  const resized = await load.desktop()
  for (const [from, to] of [
    [last, here],
    [here, next],
  ] as const) {
    await fleet.changeReplicas(to, goesOn)
    if (from === last) await expectOtherTierOnly(load, resized)
    limited ??= await limitedKey(fleet.urls[0]!, apiKey)
    await fleet.changeReplicas(from, goesOn)
    expect((await load.sleepAfter(resized, {})).result).toMatchObject({ resumed_from: 'memory' })
    await fleet.changeHosts(to, goesOn)
    await fleet.changeReplicas(to, goesOn)
    if (from === last) await expectLarger(load, resized)
  }
  await fleet.changeHosts(here, goesOn)
  await load.stop()

  for (const customer of load.customers) {
    const every = Array.from({ length: customer.rounds }, (_, at) => at + 1).join('\n')
    expect(await load.recall(customer)).toEqual({ disk: every, memory: every })
  }
  // The next release was really there: its migrations, and what its control plane writes.
  const [row] = await database.rows(
    `select (select count(*)::int from migrations where name like '9%-next%') as migrations, serves_from::text as "servesFrom",
       (select count(*)::int from replicas where motto is not null) as replicas from leadership`,
  )
  expect(row).toEqual({ migrations: 2, servesFrom: `{${release.version.replaceAll('.', ',')}}`, replicas: 2 })
  // Only what a client is told to send again was refused.
  expect([...load.refused.keys()].filter((code) => !expected.includes(code))).toEqual([])
})

const expected = [
  ...['ConnectionError', 'not_leader', 'stopping', 'database_unavailable'],
  ...['host_unreachable', 'exec_interrupted', 'guest_unavailable'],
]

/** Its host is of the release before, which boots into another tier and leaves disks as they are. */
async function expectOtherTierOnly(load: Load, id: string): Promise<void> {
  await load.change(id, { tier: 'default', disk_gib: 3 })
  const { result, desktop } = await load.sleepAfter(id, { discard_memory: true })
  const shown = { tier: 'default', next_tier: null, disk_gib: 1, next_disk_gib: 3 }
  expect([result, desktop]).toMatchObject([{ resumed_from: 'disk', ...shown }, shown])
}

/** Its host is of this release. */
async function expectLarger(load: Load, id: string): Promise<void> {
  const smaller = { disk_gib: 1, next_disk_gib: 3 }
  expect((await load.sleepAfter(id, {})).result).toMatchObject({ resumed_from: 'memory', ...smaller })
  const { desktop } = await load.sleepAfter(id, { discard_memory: true })
  expect(desktop).toMatchObject({ tier: 'default', disk_gib: 3, next_disk_gib: null })
}

/** A key that sees no desktop. The release before knows no such keys. */
async function limitedKey(baseUrl: string, apiKey: string): Promise<string> {
  const wish = { name: 'limited', can: ['see'], select: 'nothing=has,this=label' }
  return (await ask(`${baseUrl}/v1/keys`, apiKey, wish)).json.api_key as string
}

/** At each replica the key is what it is, or nothing at all. */
async function expectLimited(urls: string[], key: string): Promise<void> {
  for (const url of urls) {
    const listed = await ask(`${url}/v1/desktops`, key)
    if (listed.status === 401) continue
    expect(listed).toEqual({ status: 200, json: { desktops: [] } })
    expect(await ask(`${url}/v1/keys`, key)).toMatchObject({ status: 403, json: { code: 'not_allowed' } })
  }
}

/** Not by `fetch`, whose answers are compared with the document that this address had first. */
async function ask(
  url: string,
  key: string,
  body?: object,
): Promise<{ status: number; json: Record<string, unknown> }> {
  const sent = request(url, {
    method: body ? 'POST' : 'GET',
    headers: { authorization: `Bearer ${key}` },
    agent: false,
  })
  sent.end(body && JSON.stringify(body))
  const [answer] = (await once(sent, 'response')) as [IncomingMessage]
  return { status: answer.statusCode!, json: (await json(answer)) as Record<string, unknown> }
}

const migrationsOf = ({ folder }: Release) => readdirSync(join(folder, 'control-plane/migrations'))

async function keysOf(databaseUrl: string) {
  const log = createLog({ name: 'compat', level: 'silent' })
  const pool = openPool(databaseUrl, 1, () => undefined)
  const principals = new Principals(pool, log)
  const { id } = await principals.createOrg('compat')
  const keys = {
    operatorKey: await principals.createOperatorKey('compat'),
    apiKey: (await principals.createKey(id, 'compat')).api_key,
  }
  await pool.end()
  return keys
}
