// Guarantee: when a host is back, it and the database come to one truth, and nothing is destroyed on a guess.
import { cpSync, mkdtempDisposableSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Journal } from '@dormouse/agent/desktops/journal.ts'
import { newId } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { House } from '../house.ts'
import { waitFor } from '../wait-for.ts'
import { RogueHost } from './parts/rogue-host.ts'

/** Copies everything the simulated host has of a desktop under another name: a desktop that nobody knows. */
async function double(house: House, id: string): Promise<string> {
  const stranger = newId()
  for (const folder of ['simulated/domains', 'simulated/disks']) {
    const from = join(house.host.folder, folder, `${id}.json`)
    writeFileSync(from.replace(id, stranger), readFileSync(from, 'utf8').replaceAll(id, stranger))
  }
  await using journal = await Journal.open(house.host.folder)
  const { desktopId: _, generation, turn, operationId, ...note } = journal.read(id)!
  await journal.raise(stranger, { generation, turn, operationId }, note)
  return stranger
}

test('a desktop that runs and that nobody knows is suspended and told to the operator, never destroyed', async () => {
  await using house = await House.start()
  house.chronicle.foresee(/no record in the database/)
  const { id } = await house.desktop('awake')
  await house.killAgent()
  const stranger = await double(house, id)
  await house.restartAgent()
  await waitFor('the stranger to be suspended', async () => (await house.observed(stranger))?.domain === 'paused')
  expect(house.chronicle.find(/runs a desktop that has no record in the database/)).not.toEqual([])
  expect(await house.host.holds(stranger)).toEqual({ domain: 'paused', disk: true })
  expect((await house.observed(id))?.domain).toBe('running')
  expect((await house.see(id)).state).toBe('awake')
})

test('a tombstone removes what stands up again, and only that', async () => {
  await using house = await House.start()
  const { id } = await house.desktop('awake')
  const keeps = (await house.desktop('awake')).id
  await house.killAgent()
  // A host restored from its own copy: the database has gone on.
  using copy = mkdtempDisposableSync(join(tmpdir(), 'dormouse-copy-'))
  cpSync(house.host.folder, copy.path, { recursive: true })
  await house.restartAgent()
  await house.ask(id, 'destroy')
  await house.killAgent()
  for (const name of readdirSync(copy.path))
    cpSync(join(copy.path, name), join(house.host.folder, name), { recursive: true, force: true })
  await house.restartAgent()
  await waitFor('the tombstone to be honoured', async () => (await house.observed(id)) === undefined)
  expect(await house.host.holds(id)).toEqual({ domain: 'absent', disk: false })
  expect((await house.see(keeps)).state).toBe('awake')
  expect(await house.host.holds(keeps)).toEqual({ domain: 'running', disk: true })
})

test('where one pass would remove more than a few, it removes nothing and alarms', async () => {
  await using house = await House.start()
  house.chronicle.foresee(/too many desktops would be/)
  const ids = await Promise.all(Array.from({ length: 7 }, async () => (await house.desktop('awake')).id))
  await house.killAgent()
  await house.database.rows(`update desktops set state = 'destroyed', turn = turn + 1`)
  await house.restartAgent()
  await waitFor('the alarm', () => house.chronicle.find(/too many desktops would be/).length > 0)
  for (const id of ids) expect(await house.host.holds(id)).toEqual({ domain: 'running', disk: true })
  await house.database.rows(`update desktops set state = 'destroyed', turn = turn + 1`)
})

test('a host that comes back without anything destroys nothing in the database: what was awake is stopped, what slept stays', async () => {
  await using house = await House.start()
  const awake = (await house.desktop('awake')).id
  const saved = (await house.desktop('hibernated')).id
  await house.killAgent()
  house.host.driver.die(awake)
  await house.restartAgent()
  await house.becomes(awake, 'stopped')
  expect((await house.see(saved)).state).toBe('hibernated')
})

test('a database that is behind its host changes nothing there, and tells the operator', async () => {
  await using house = await House.start()
  house.chronicle.foresee(/restored from a backup/)
  const { id } = await house.desktop('awake')
  await house.database.rows(`update desktops set state = 'stopped', turn = 0, generation = 0 where id = $1`, [id])
  await house.replica.parts.recovery.compare(house.host.id)
  expect(house.chronicle.find(/restored from a backup/)).not.toEqual([])
  expect(await house.host.holds(id)).toEqual({ domain: 'running', disk: true })
})

test('an agent refuses the commands of a leader of an older epoch', async () => {
  await using house = await House.start()
  const { id } = await house.desktop('awake')
  await house.endTerm()
  await house.ask(id, 'hibernate')
  const fence = { desktopId: id, epoch: 1, generation: 9, turn: 99, operationId: newId(), deadlineMs: 5_000 }
  const late = house.replica.parts.links.command(house.host.id, 'desktop.ensureDestroyed', { fence })
  await expect(late).rejects.toMatchObject({ code: 'stale_epoch' })
  expect((await house.ask(id, 'wake')).result?.resumed_from).toBe('memory')
})

/** A host by hand, with one desktop of its own that was never woken. */
async function handmade(house: House, digests?: string[]) {
  const { token } = await house.replica.parts.hosts.invite('handmade')
  const host = await RogueHost.enrol(house.url, token)
  const { id } = await house.desktop()
  await house.database.rows('update desktops set host_id = $2 where id = $1', [id, host.id])
  const item = {
    desktopId: id,
    generation: 0,
    turn: 0,
    operationId: null,
    domain: 'absent',
    memory: 'none',
    disk: true,
  }
  const asked: { known: string[] }[] = []
  const orders: { desktopId: string }[] = []
  await host.linked({
    handlers: {
      'host.inventory': async (payload) => {
        asked.push(payload as { known: string[] })
        return { items: [{ ...item, reason: null }], digests }
      },
      'host.rejoin': async (payload) => {
        orders.push(...(payload as { orders: { desktopId: string }[] }).orders)
        return { items: [] }
      },
    },
  })
  const compare = async () => {
    orders.length = 0
    await house.replica.parts.recovery.compare(host.id)
    return { known: asked.at(-1)!.known, judged: orders.map(({ desktopId }) => desktopId) }
  }
  return { host, id, compare }
}

test('what a host and the database agreed on is not judged again, until either of them has changed', async () => {
  await using house = await House.start({ hosts: 0 })
  const digests = Array.from({ length: 16 }, (_, bucket) => `digest ${bucket}`)
  const { host, id, compare } = await handmade(house, digests)
  await using _host = host
  await compare()
  expect(await compare()).toEqual({ known: digests, judged: [] })
  await house.database.rows('update desktops set turn = 1 where id = $1', [id])
  const bucket = Number.parseInt(id.slice(-1), 16)
  expect(await compare()).toEqual({ known: digests.with(bucket, ''), judged: [id] })
  expect(await compare()).toEqual({ known: digests, judged: [] })
  digests[bucket] = 'another'
  expect(await compare()).toMatchObject({ judged: [id] })
  expect(await compare()).toEqual({ known: digests, judged: [] })
})

test('a host of the release before, which has no digests, is compared whole each time', async () => {
  await using house = await House.start({ hosts: 0 })
  const { host, id, compare } = await handmade(house)
  await using _host = host
  await compare()
  expect(await compare()).toEqual({ known: Array.from({ length: 16 }, () => ''), judged: [id] })
})
