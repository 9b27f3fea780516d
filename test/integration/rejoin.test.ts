// Guarantee: when a host is back, it and the database come to one truth, and nothing is destroyed on a guess.
import { cpSync, mkdtempDisposableSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Journal } from '@dormouse/agent/desktops/journal.ts'
import { newId } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'
import { RogueHost } from './parts/rogue-host.ts'

/** Copies everything the simulated host has of a desktop under another name: a desktop that nobody knows. */
async function double(stack: Stack, id: string): Promise<string> {
  const stranger = newId()
  for (const folder of ['simulated/domains', 'simulated/disks']) {
    const from = join(stack.host.folder, folder, `${id}.json`)
    writeFileSync(from.replace(id, stranger), readFileSync(from, 'utf8').replaceAll(id, stranger))
  }
  await using journal = await Journal.open(stack.host.folder)
  const { desktopId: _, generation, turn, operationId, ...note } = journal.read(id)!
  await journal.raise(stranger, { generation, turn, operationId }, note)
  return stranger
}

test('a desktop that runs and that nobody knows is suspended and told to the operator, never destroyed', async () => {
  await using stack = await Stack.start()
  stack.chronicle.foresee(/no record in the database/)
  const { id } = await stack.desktop('awake')
  await stack.killAgent()
  const stranger = await double(stack, id)
  await stack.restartAgent()
  await waitFor('the stranger to be suspended', async () => (await stack.observed(stranger))?.domain === 'paused')
  expect(stack.chronicle.find(/runs a desktop that has no record in the database/)).not.toEqual([])
  expect(await stack.host.holds(stranger)).toEqual({ domain: 'paused', disk: true })
  expect((await stack.observed(id))?.domain).toBe('running')
  expect((await stack.see(id)).state).toBe('awake')
})

test('a tombstone removes what stands up again, and only that', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  const keeps = (await stack.desktop('awake')).id
  await stack.killAgent()
  // A host restored from its own copy: the database has gone on.
  using copy = mkdtempDisposableSync(join(tmpdir(), 'dormouse-copy-'))
  cpSync(stack.host.folder, copy.path, { recursive: true })
  await stack.restartAgent()
  await stack.ask(id, 'destroy')
  await stack.killAgent()
  for (const name of readdirSync(copy.path))
    cpSync(join(copy.path, name), join(stack.host.folder, name), { recursive: true, force: true })
  await stack.restartAgent()
  await waitFor('the tombstone to be honoured', async () => (await stack.observed(id)) === undefined)
  expect(await stack.host.holds(id)).toEqual({ domain: 'absent', disk: false })
  expect((await stack.see(keeps)).state).toBe('awake')
  expect(await stack.host.holds(keeps)).toEqual({ domain: 'running', disk: true })
})

test('where one pass would remove more than a few, it removes nothing and alarms', async () => {
  await using stack = await Stack.start()
  stack.chronicle.foresee(/too many desktops would be/)
  const ids = await Promise.all(Array.from({ length: 7 }, async () => (await stack.desktop('awake')).id))
  await stack.killAgent()
  await stack.database.rows(`update desktops set state = 'destroyed', turn = turn + 1`)
  await stack.restartAgent()
  await waitFor('the alarm', () => stack.chronicle.find(/too many desktops would be/).length > 0)
  for (const id of ids) expect(await stack.host.holds(id)).toEqual({ domain: 'running', disk: true })
  await stack.database.rows(`update desktops set state = 'destroyed', turn = turn + 1`)
})

test('a host that comes back without anything destroys nothing in the database: what was awake is stopped, what slept stays', async () => {
  await using stack = await Stack.start()
  const awake = (await stack.desktop('awake')).id
  const saved = (await stack.desktop('hibernated')).id
  await stack.killAgent()
  stack.host.driver.die(awake)
  await stack.restartAgent()
  await stack.becomes(awake, 'stopped')
  expect((await stack.see(saved)).state).toBe('hibernated')
})

test('a database that is behind its host changes nothing there, and tells the operator', async () => {
  await using stack = await Stack.start()
  stack.chronicle.foresee(/restored from a backup/)
  const { id } = await stack.desktop('awake')
  await stack.database.rows(`update desktops set state = 'stopped', turn = 0, generation = 0 where id = $1`, [id])
  await stack.replica.parts.recovery.compare(stack.host.id)
  expect(stack.chronicle.find(/restored from a backup/)).not.toEqual([])
  expect(await stack.host.holds(id)).toEqual({ domain: 'running', disk: true })
})

test('an agent refuses the commands of a leader of an older epoch', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  await stack.endTerm()
  await stack.ask(id, 'hibernate')
  const fence = { desktopId: id, epoch: 1, generation: 9, turn: 99, operationId: newId(), deadlineMs: 5_000 }
  const late = stack.replica.parts.links.command(stack.host.id, 'desktop.ensureDestroyed', { fence })
  await expect(late).rejects.toMatchObject({ code: 'stale_epoch' })
  expect((await stack.ask(id, 'wake')).result?.resumed_from).toBe('memory')
})

/** A host by hand, with one desktop of its own that was never woken. */
async function handmade(stack: Stack, digests: string[]) {
  const { token } = await stack.replica.parts.hosts.invite('handmade')
  const host = await RogueHost.enrol(stack.url, token)
  const { id } = await stack.desktop()
  await stack.database.rows('update desktops set host_id = $2 where id = $1', [id, host.id])
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
    await stack.replica.parts.recovery.compare(host.id)
    return { known: asked.at(-1)!.known, judged: orders.map(({ desktopId }) => desktopId) }
  }
  return { host, id, compare }
}

test('what a host and the database agreed on is not judged again, until either of them has changed', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  const digests = Array.from({ length: 16 }, (_, bucket) => `digest ${bucket}`)
  const { host, id, compare } = await handmade(stack, digests)
  await using _host = host
  await compare()
  expect(await compare()).toEqual({ known: digests, judged: [] })
  await stack.database.rows('update desktops set turn = 1 where id = $1', [id])
  const bucket = Number.parseInt(id.slice(-1), 16)
  expect(await compare()).toEqual({ known: digests.with(bucket, ''), judged: [id] })
  expect(await compare()).toEqual({ known: digests, judged: [] })
  digests[bucket] = 'another'
  expect(await compare()).toMatchObject({ judged: [id] })
  expect(await compare()).toEqual({ known: digests, judged: [] })
})
