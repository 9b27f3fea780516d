// Guarantee: a backup that `infra/backup` wrote while the service ran is restored by it, and what has happened since is not
// undone on the hosts: no desktop runs twice, no memory and no disk is lost, and each desktop can be used or destroyed.
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { newId } from '@dormouse/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { finish, run } from '../../scripts/testbed/processes.ts'
import { databaseNamed, makeTemplate, query } from '../setup/postgres.ts'
import { Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'
import { type PackagedPostgres, packagedPostgres } from './parts/packaged-postgres.ts'

const script = (name: string) => fileURLToPath(new URL(`../../infra/backup/${name}`, import.meta.url))

let postgres: PackagedPostgres
let folder: string
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'dormouse-backup-'))
  postgres = await packagedPostgres()
  await makeTemplate(postgres.url)
})
afterAll(async () => {
  await postgres?.[Symbol.asyncDispose]()
  rmSync(folder, { recursive: true, force: true })
})

const env = (databaseUrl: string) => ({ PATH: `${postgres.programs}:${process.env.PATH}`, DATABASE_URL: databaseUrl })
const backup = async (databaseUrl: string) =>
  (await run(script('dormouse-backup'), ['--keep', '2', folder], { env: env(databaseUrl) })).trim()
const restore = (file: string, databaseUrl: string) =>
  finish(script('dormouse-restore'), [file], { env: env(databaseUrl) })

test('after a restore of an older backup, hosts report what they have, and nothing runs twice', async () => {
  const agent = { moveAddress: { host: '127.0.0.1', port: 0 } }
  await using stack = await Stack.start({ databaseServer: postgres.url, hosts: 2, agent })
  stack.chronicle.foresee(
    /another host than the database names|restored from a backup|later turn|no record in the database|should be hibernated/,
  )
  const kept = (await stack.desktop('awake')).id
  const slept = (await stack.desktop('hibernated')).id
  const woken = (await stack.desktop('hibernated')).id
  const destroyed = (await stack.desktop('awake')).id
  const moved = (await stack.desktop('awake')).id
  const file = await backup(stack.database.url)
  expect(await stack.database.rows('select finished_at <= now() as done, bytes > 0 as has from backups')).toEqual([
    { done: true, has: true },
  ])
  expect(await stack.metrics()).toMatch(/^dormouse_backup_last_success_timestamp_seconds [1-9]/m)

  const request = { to: null, requestedBy: 'operator', requestId: newId() } as const
  const move = await stack.replica.parts.moves.begin(moved, request)
  expect((await stack.settled(move.id)).state).toBe('succeeded')
  const arrived = await stack.hostOf(moved)
  await stack.ask(woken, 'wake')
  await stack.ask(destroyed, 'destroy')
  const made = (await stack.desktop('awake')).id
  await stack.remember(kept, 'kept')

  const holderOf = async (id: string) =>
    (await Promise.all(stack.hosts.map((host) => host.holds(id)))).find(({ disk }) => disk)
  const restored = databaseNamed(postgres.url, 'restored')
  await query(postgres.url, 'create database restored')
  expect(await restore(file, restored)).toMatchObject({ code: 0 })
  await stack.replica.stop()
  await stack.replica.start({ databaseUrl: restored })
  await stack.replica.leading()
  for (const host of stack.hosts) await stack.linked(host)

  await waitFor('what the host does not have', async () => (await stack.see(destroyed)).state === 'stopped')
  expect((await stack.see(kept)).state).toBe('awake')
  expect(await stack.recall(kept)).toEqual({ memory: 'kept', disk: 'kept' })
  // Moved since: its one whole copy is paused.
  await waitFor('the moved guest', async () => (await arrived.holds(moved)).domain === 'paused')
  await stack.becomes(moved, 'stopped')
  // Woken since: it is reported, and left as it is, until an operator has corrected its record.
  await waitFor('the report', () => stack.chronicle.find(/later turn/).length > 0)
  expect((await holderOf(woken))?.domain).toBe('running')
  expect((await stack.see(woken)).state).toBe('hibernated')
  expect((await stack.ask(slept, 'wake')).result).toMatchObject({ resumed_from: 'memory' })
  // Made since: its disk and its memory stay on the host.
  expect(await holderOf(made)).toMatchObject({ disk: true })
  expect((await stack.ask(destroyed, 'destroy')).state).toBe('succeeded')
})

test('only the newest backups are kept; a database that is in use is not restored into; half a backup restores nothing', async () => {
  await query(postgres.url, 'create database empty_one')
  const empty = databaseNamed(postgres.url, 'empty_one')
  const full = databaseNamed(postgres.url, 'dormouse_template')
  const [file] = readdirSync(folder)
  expect(await restore(join(folder, file!), full)).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('not empty'),
  })
  await run('cp', [join(folder, file!), join(folder, 'half')])
  await run('truncate', ['-s', '20000', join(folder, 'half')])
  expect(await restore(join(folder, 'half'), empty)).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('nothing was changed'),
  })
  expect(await restore(join(folder, file!), empty)).toMatchObject({ code: 0 })
  for (const time of ['20200101T000000Z', '20200102T000000Z'])
    await run('touch', [join(folder, `dormouse-${time}.dump`)])
  await backup(full)
  const dumps = readdirSync(folder).filter((name) => name.endsWith('.dump'))
  expect(dumps).toHaveLength(2)
  expect(dumps).not.toContain('dormouse-20200101T000000Z.dump')
})
