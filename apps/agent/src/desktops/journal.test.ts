import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { newId } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { AppendLog } from '../mechanics/append-log.ts'
import { fenceOf } from '../testing/bench.ts'
import { Journal } from './journal.ts'

async function folder() {
  const path = await mkdtemp(join(tmpdir(), 'dormouse-journal-'))
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) }
}

test('what was accepted and noted is read back by the next process', async () => {
  await using at = await folder()
  const id = newId()
  const journal = await Journal.open(at.path)
  await journal.raiseEpoch(7)
  await journal.accept(fenceOf(id, 2, 3), 'desktop.ensureAwake')
  await journal.note(fenceOf(id, 2, 3), { wokeFrom: 'memory', spent: ['a.save'] })
  await journal.close()
  await using next = await Journal.open(at.path)
  expect(next.highestEpoch).toBe(7)
  expect(next.read(id)).toMatchObject({ generation: 2, turn: 3, wokeFrom: 'memory', spent: ['a.save'], state: 'doing' })
  await expect(next.raiseEpoch(6)).rejects.toMatchObject({ code: 'stale_epoch' })
})

test('what is to be synced later is known at once, and on the disk when its desktop’s changes are synced', async () => {
  await using at = await folder()
  const [id, other] = [newId(), newId()]
  const syncs: number[] = []
  await using journal = await Journal.open(at.path, async (name) => {
    if (name === 'journal.before-sync') syncs.push(1)
  })
  await journal.accept(fenceOf(id, 2, 3), 'desktop.ensureAwake', {}, { syncLater: true })
  await journal.note(fenceOf(id, 2, 3), { wokeFrom: 'memory' }, { syncLater: true })
  expect(journal.read(id)).toMatchObject({ turn: 3, wokeFrom: 'memory' })
  await journal.synced(other)
  expect(syncs).toHaveLength(0)
  await journal.synced(id)
  expect(syncs).toHaveLength(1)
  // What another desktop writes, or progress, has nothing to do with it.
  await journal.accept(fenceOf(other, 1, 1), 'desktop.ensureAwake', {}, { syncLater: true })
  await journal.note(fenceOf(id, 2, 3), { state: 'done' })
  await journal.synced(id)
  expect(syncs).toHaveLength(1)
})

test('progress alone is kept in memory, and written with the next change or when the journal closes', async () => {
  await using at = await folder()
  const id = newId()
  const journal = await Journal.open(at.path)
  await journal.accept(fenceOf(id, 1, 1), 'desktop.ensureAwake')
  await journal.note(fenceOf(id, 1, 1), { state: 'done' })
  expect(journal.read(id)?.state).toBe('done')
  expect(Journal.view(at.path).read(id)?.state).toBe('doing')
  await journal.note(fenceOf(id, 1, 1), { running: true })
  expect(Journal.view(at.path).read(id)).toMatchObject({ state: 'done', running: true })
  await journal.note(fenceOf(id, 1, 1), { state: 'failed', failure: 'any' })
  await journal.close()
  expect(Journal.view(at.path).read(id)).toMatchObject({ state: 'failed', failure: 'any' })
})

test('a write that was cut off leaves the entry as it was', async () => {
  await using at = await folder()
  const id = newId()
  let cut = false
  const journal = await Journal.open(at.path, async () => {
    if (cut) throw new Error('cut off')
  })
  await journal.accept(fenceOf(id, 1, 1), 'desktop.ensureAwake')
  cut = true
  await expect(journal.note(fenceOf(id, 1, 1), { wokeFrom: 'memory' })).rejects.toThrow('cut off')
  expect(journal.read(id)?.wokeFrom).toBeNull()
  await journal.close()
  await using next = await Journal.open(at.path)
  expect(next.all()).toHaveLength(1)
  expect(next.read(id)?.wokeFrom).toBeNull()
})

test('an entry that cannot be read stops the agent, and names the file', async () => {
  await using at = await folder()
  await (await Journal.open(at.path)).close()
  const record = JSON.stringify({ entry: { desktopId: newId(), generation: 'one' } })
  const log = await AppendLog.open(
    { path: join(at.path, 'journal.log'), snapshot: () => [record], hit: async () => undefined },
    undefined,
  )
  await log.close()
  await expect(Journal.open(at.path)).rejects.toThrow('journal.log has a record that this agent cannot read')
})

test('a note of an overtaken turn is refused and changes nothing', async () => {
  await using at = await folder()
  const id = newId()
  await using journal = await Journal.open(at.path)
  await journal.accept(fenceOf(id, 1, 1), 'desktop.ensureAwake')
  await journal.accept(fenceOf(id, 1, 2), 'desktop.ensureDestroyed')
  await expect(journal.note(fenceOf(id, 1, 1), { running: true })).rejects.toMatchObject({ code: 'superseded' })
  expect(journal.read(id)?.running).toBe(false)
})

test('tombstones are forgotten after their time, and nothing else is', async () => {
  await using at = await folder()
  const [old, young, alive] = [newId(), newId(), newId()]
  const journal = await Journal.open(at.path)
  for (const id of [old, young, alive]) await journal.accept(fenceOf(id, 1, 1), 'desktop.ensureDestroyed')
  await journal.note(fenceOf(old, 1, 1), { destroyedAt: '2020-01-01T00:00:00.000Z' })
  await journal.note(fenceOf(young, 1, 1), { destroyedAt: '2024-01-01T00:00:00.000Z' })
  await journal.prune(Date.parse('2023-01-01T00:00:00.000Z'))
  expect(journal.all().map(({ desktopId }) => desktopId)).toEqual([young, alive])
  await journal.close()
  await using next = await Journal.open(at.path)
  expect(next.all().map(({ desktopId }) => desktopId)).toEqual([young, alive])
})

test('a lost journal is raised to what domains and images say, never lowered', async () => {
  await using at = await folder()
  const id = newId()
  await using journal = await Journal.open(at.path)
  await journal.raise(id, { generation: 4, turn: 9, operationId: newId() }, { running: true })
  await journal.raise(id, { generation: 3, turn: 99, operationId: newId() }, { running: false })
  expect(journal.read(id)).toMatchObject({ generation: 4, turn: 9, running: true })
})
