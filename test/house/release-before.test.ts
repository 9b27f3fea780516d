// Guarantee: for one release back and forth, agents and control planes of either release work together, and replicas of both
// share a database. The older programs are a pinned build (test/compat).
import { once } from 'node:events'
import { type AdminClient, type Client, createAdminClient, createClient, Desktop } from '@dormouse/client'
import { createLog } from '@dormouse/process'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { House } from '../house.ts'
import { plainFetch } from '../openapi.ts'
import { waitFor } from '../wait-for.ts'
import { Chronicle } from './parts/chronicle.ts'
import { Database } from './parts/database.ts'
import { Host } from './parts/host.ts'
import { beginMove, desktopIn, expectWholeOn, movingAgent, other } from './parts/moved.ts'
import { ReleaseBefore } from './parts/release-before.ts'
import { Replica } from './parts/replica.ts'

let before: ReleaseBefore
beforeAll(() => {
  before = new ReleaseBefore()
})
afterAll(async () => {
  await before?.[Symbol.asyncDispose]()
})

const echo = async (desktop: Desktop, text: string) => (await desktop.commands.run(`echo ${text}`)).stdout.trim()

/** Created, used, hibernated, woken from memory and destroyed; answers which host it was on. */
async function life(client: Client): Promise<string> {
  const desktop = await Desktop.create({ client, tier: 'small' })
  const { result } = await desktop.wake()
  expect(result).toMatchObject({ resumedFrom: 'image' })
  expect(await echo(desktop, 'first')).toBe('first')
  await desktop.hibernate()
  expect((await desktop.wake()).result).toMatchObject({ resumedFrom: 'memory' })
  expect(await echo(desktop, 'again')).toBe('again')
  expect((await desktop.destroy()).result).toMatchObject({ cleanup: 'done' })
  return result!.hostId!
}

/** Waits until these hosts can take desktops. */
const usable = (admin: AdminClient, names: string[]) =>
  waitFor(`the hosts ${names.join(' and ')}`, async () => {
    const { hosts } = await admin.listHosts()
    return names.every((name) => hosts.some((host) => host.name === name && host.linked && host.state === 'active'))
  })

test('an agent of the release before enrols with this control plane, and does everything it did', async () => {
  await using house = await House.start({ hosts: 0 })
  const { token } = await house.replica.parts.hosts.invite('old')
  const agent = before.agent('old', house.url, token)
  await once(house.replica.parts.links, 'linked')
  await life(house.client)
  // What came with this release is refused as such.
  const desktop = await Desktop.create({ client: house.client, tier: 'small' })
  await desktop.wake()
  await expect(desktop.files.stat('/srv', { retries: 0 })).rejects.toMatchObject({ code: 'host_outdated' })
  const start = house.client.execs.start(desktop.id, { command: 'true' }, { retries: 0 })
  await expect(start).rejects.toMatchObject({ code: 'host_outdated' })
  await desktop.files.write('/srv/x', 'whole')
  const part = await desktop.files.readPart('/srv/x', { offset: 2 })
  expect([part.offset, await new Response(part.stream).text()]).toEqual([0, 'whole'])
  await agent.stop()
})

test('this agent works with a control plane of the release before; both replicas share a database', async () => {
  const database = await Database.empty(inject('databaseUrl'))
  const operatorKey = await before.operatorKey(database.url)
  let old = await before.controlPlane(database.url)
  const at = (baseUrl: string) => createAdminClient({ baseUrl, operatorKey, retries: 0, fetch: plainFetch })
  const admin = at(old.url)
  const { id: orgId } = await admin.createOrg({ name: 'first' })
  const { api_key: apiKey } = await admin.createKey({ org_id: orgId, name: 'test' })
  const as = (baseUrl: string) => createClient({ baseUrl, apiKey, fetch: plainFetch })
  const chronicle = new Chronicle()
  const log = createLog({ name: 'compat', level: 'warn', destination: chronicle })

  const invite = (await admin.inviteHost({ name: 'new' })).token
  const host = await Host.start({ name: 'new', controlPlane: old.url, invite, log, chronicle })
  await usable(admin, ['new'])
  expect(await life(as(old.url))).toBe(host.id)
  const kept = await Desktop.create({ client: as(old.url), tier: 'small' })
  await kept.wake()

  // This release migrates the database, while the old one leads and goes on.
  const replica = new Replica(database.url, log)
  await replica.start()
  await life(as(old.url))
  await kept.hibernate()
  await usable(at(replica.url), ['new'])

  await old.stop()
  await replica.leading()
  const now = await Desktop.connect(kept.id, { client: as(replica.url) })
  expect((await now.wake()).result).toMatchObject({ resumedFrom: 'memory' })
  await life(as(replica.url))

  // And back, as when an update is undone.
  old = await before.controlPlane(database.url)
  // The agent has learnt its address.
  await usable(at(old.url), ['new'])
  await replica.stop()
  const back = as(old.url)
  const again = await Desktop.connect(kept.id, { client: back })
  expect(await echo(again, 'kept')).toBe('kept')
  await again.destroy()
  await life(back)

  await host.close()
  await old.stop()
  await database.drop()
})

test('a replica of the release before that leads in the middle of moves leaves them alone; the next leader goes on', async () => {
  await using house = await House.start({ hosts: 2, agent: movingAgent })
  const [moving, destroyed] = [await desktopIn(house, 'awake'), await desktopIn(house, 'awake')]
  const from = await house.hostOf(moving)
  let held = 0
  const go = Promise.withResolvers<void>()
  house.failpoints.set('move.arrive.before', () => {
    held++
    return go.promise
  })
  const moves = [await beginMove(house, moving), await beginMove(house, destroyed, 'hibernate')]
  await waitFor('both moves to be before their decision', () => held === 2)
  const queued = await house.begin(moving, 'hibernate')

  const operatorKey = await house.replica.parts.principals.createOperatorKey('ops')
  house.secrets.learn('the operator’s key', operatorKey)
  const old = await before.controlPlane(house.database.url)
  const admin = createAdminClient({ baseUrl: old.url, operatorKey, retries: 0, fetch: plainFetch })
  await usable(
    admin,
    house.hosts.map(({ name }) => name),
  )
  await house.replica.stopAt(go.resolve)
  house.failpoints.set('move.arrive.before', undefined)
  const client = createClient({ baseUrl: old.url, apiKey: house.org.key, fetch: plainFetch })
  const leads = () => client.destroyDesktop(destroyed).catch(() => undefined)
  await waitFor('the destroy under the older leader', async () => {
    await leads()
    return (await client.getDesktop(destroyed)).state === 'destroyed'
  })
  await waitFor('the request that waited', async () => (await client.getOperation(queued.id)).state === 'failed')
  expect((await client.getOperation(moves[0]!.id)).state).toBe('running')
  expect(await client.getDesktop(moving)).toMatchObject({ state: 'awake', host_id: from.id })

  await house.replica.start()
  await old.stop()
  await house.replica.leading()
  for (const host of house.hosts) await house.linked(host)
  expect(await house.settled(moves[0]!.id)).toMatchObject({ state: 'succeeded', result: { moved: 'live' } })
  // That leader knows no queue: a host refused it in the turn of the move, and the operation says so.
  expect((await house.operation(queued.id)).error_code).toBe('stale_turn')
  for (const host of house.hosts) await house.shows(destroyed, 'nothing', host)
  // That leader knows no reservations of moves; this one prunes them.
  await house.replica.parts.retention.prune()
  await expectWholeOn(house, other(house, from), moving, 'awake')
})
