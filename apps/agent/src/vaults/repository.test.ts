// Guarantee: a snapshot is whole or an error says why, with real restic; what is damaged is never restored as if it were whole.

import { randomBytes } from 'node:crypto'
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { Repository } from './repository.ts'
import type { VaultError } from './restic.ts'
import { readVaults, type Vault } from './vault-files.ts'

let root: string
let vault: Vault
let repository: Repository
const { signal } = new AbortController()
beforeEach(async () => {
  root = mkdtempSync(join(tmpdir(), 'dormouse-vault-'))
  for (const name of ['live', 'cache', 'back']) mkdirSync(join(root, name))
  vault = { name: 'main', environment: { RESTIC_REPOSITORY: join(root, 'repo'), RESTIC_PASSWORD: 'secret' }, words: [] }
  repository = new Repository({ vault, cacheDir: join(root, 'cache') })
  await repository.ensure(signal)
})
afterEach(() => rmSync(root, { recursive: true, force: true }))

const live = (name: string) => join(root, 'live', name)
const backup = (files: string[], parent?: string, given = signal) =>
  repository.backup({ folder: join(root, 'live'), files, host: 'd1', tags: ['t'], parent }, given)
const read = (id: string, name: string, bytes: number) =>
  repository.read(id, { name, bytes, to: join(root, 'back', name) }, signal)
const troubleOf = (work: Promise<unknown>) =>
  work.then(
    () => 'none',
    (error: unknown) => (error as VaultError).trouble,
  )
const packs = () => {
  const data = join(root, 'repo', 'data')
  return readdirSync(data, { recursive: true, encoding: 'utf8' })
    .map((name) => join(data, name))
    .filter((path) => statSync(path).isFile())
}

/** restic repeats other faults for a minute. */
function flipByte(path: string): void {
  const bytes = readFileSync(path)
  bytes[1_000]! ^= 1
  chmodSync(path, 0o600)
  writeFileSync(path, bytes)
}

test('what was copied comes back, unchanged data is not sent again, and a second `ensure` keeps it', async () => {
  const disk = randomBytes(6_000_000)
  writeFileSync(live('disk'), disk)
  writeFileSync(live('memory'), 'memory 1')
  const first = await backup(['disk', 'memory'])
  expect(first).toMatchObject({ bytes: 6_000_008 })
  expect(first.addedBytes).toBeGreaterThan(6_000_000)
  writeFileSync(live('memory'), 'memory 2')
  const second = await backup(['disk', 'memory'], first.id)
  expect(second.addedBytes).toBeLessThan(100_000)
  await repository.ensure(signal)
  await read(first.id, 'disk', 6_000_000)
  await read(first.id, 'memory', 8)
  expect(readFileSync(join(root, 'back', 'disk')).equals(disk)).toBe(true)
  expect(readFileSync(join(root, 'back', 'memory'), 'utf8')).toBe('memory 1')
  await repository.forget([first.id], signal)
  await repository.prune(signal)
  await repository.check('1/1', signal)
  expect(await troubleOf(read(first.id, 'memory', 8))).toBe('gone')
  expect(await troubleOf(read(second.id, 'memory', 7))).toBe('damaged')
  expect(await troubleOf(read(second.id, 'other', 7))).toBe('gone')
})

test('a file that is not there makes no snapshot that counts', async () => {
  writeFileSync(live('disk'), 'x')
  expect(await troubleOf(backup(['disk', 'memory']))).toBe('failed')
})

test('each trouble has its name', async () => {
  writeFileSync(live('disk'), randomBytes(100_000))
  const { id } = await backup(['disk'])
  const other = (environment: Record<string, string>) =>
    new Repository({ vault: { ...vault, environment: { ...vault.environment, ...environment } }, cacheDir: root })
  expect(await troubleOf(other({ RESTIC_PASSWORD: 'wrong' }).ensure(signal))).toBe('password')
  const words = ['-o', 'sftp.command=ssh -F none -o BatchMode=yes -p 9 127.0.0.1 -s sftp']
  const away = { ...vault, words, environment: { ...vault.environment, RESTIC_REPOSITORY: 'sftp:x:/repo' } }
  expect(await troubleOf(new Repository({ vault: away, cacheDir: root }).ensure(signal))).toBe('unreachable')
  const [largest] = packs().sort((a, b) => statSync(b).size - statSync(a).size)
  flipByte(largest!)
  expect(await troubleOf(repository.check('1/1', signal))).toBe('damaged')
  expect(await troubleOf(read(id, 'disk', 100_000))).toBe('damaged')
  rmSync(join(root, 'repo', 'config'))
  expect(await troubleOf(repository.check('1/1', signal))).toBe('missing')
})

test('a copy that is stopped ends restic, and leaves a repository that is not locked', async () => {
  writeFileSync(live('disk'), randomBytes(60_000_000))
  const stop = new AbortController()
  const progress = () => stop.abort()
  const running = repository.backup(
    { folder: join(root, 'live'), files: ['disk'], host: 'd1', tags: [], parent: undefined, progress },
    stop.signal,
  )
  expect(await troubleOf(running)).toBe('stopped')
  await repository.prune(signal)
})

test('a vault is a file of settings; one that could run programs or is incomplete is told and not used', async () => {
  const folder = join(root, 'vaults')
  mkdirSync(folder)
  writeFileSync(join(folder, 'main.env'), 'RESTIC_REPOSITORY=/srv/vault\nRESTIC_PASSWORD_FILE=/etc/dormouse/vault\n')
  writeFileSync(join(folder, 'evil.env'), 'RESTIC_REPOSITORY=/x\nRESTIC_PASSWORD_COMMAND=reboot\n')
  writeFileSync(join(folder, 'half.env'), 'RESTIC_REPOSITORY=/x\n')
  writeFileSync(join(folder, 'Bad Name.env'), '')
  writeFileSync(join(folder, 'README'), '')
  const { vaults, refused } = await readVaults(folder)
  expect(vaults.map(({ name }) => name)).toEqual(['main'])
  expect(refused.map(({ name }) => name)).toEqual(['Bad Name.env', 'evil', 'half'])
  expect(await readVaults(join(root, 'none'))).toEqual({ vaults: [], refused: [] })
})
