// Guarantee: a copy of a sleeping desktop is whole or none, and a wake never waits for one; a desktop that is restored has what was
// copied, its memory at most once, and keeps what it had until the copy is here whole. With real restic.
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type MadeCopy, newId } from '@dormouse/contract'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { Bench, fenceOf, spec } from '../testing/bench.ts'

let folder: string
const installationId = newId()
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'dormouse-copies-'))
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))
beforeEach(() => rmSync(join(folder, 'repo'), { recursive: true, force: true }))

const vaultOf = (bench: Bench) => join(bench.folder, 'vaults', 'main.env')
const knowVault = (bench: Bench, password = 'secret') =>
  writeFileSync(vaultOf(bench), `RESTIC_REPOSITORY=${join(folder, 'repo')}\nRESTIC_PASSWORD=${password}\n`)
async function start() {
  const bench = await Bench.start({ installationId })
  mkdirSync(join(bench.folder, 'vaults'))
  knowVault(bench)
  return bench
}
const bootOf = (bench: Bench, id: string) => bench.run(id, 'cat /proc/sys/kernel/random/boot_id')
const write = (bench: Bench, id: string, text: string) => bench.run(id, `echo ${text} > ~/kept; sync`)
const kept = (bench: Bench, id: string) => bench.run(id, 'cat ~/kept')

/** A desktop that has hibernated in generation 1, turn 2. */
async function asleep(bench: Bench) {
  const id = newId()
  await bench.awake(fenceOf(id, 1, 1))
  const boot = await bootOf(bench, id)
  await write(bench, id, 'one')
  await bench.hibernated(fenceOf(id, 1, 2))
  return { id, boot }
}
const make = (bench: Bench, desktopId: string, generation = 1, turn = 2, parent: string | null = null) =>
  bench.ask('copy.make', { desktopId, generation, turn, copyId: newId(), vault: 'main', parent })
const restore = (bench: Bench, desktopId: string, copy: MadeCopy, turn: number, memory = copy.kind === 'memory') =>
  bench.ask('copy.restore', {
    fence: fenceOf(desktopId, turn, turn),
    vault: 'main',
    snapshot: copy.snapshot,
    spec,
    imageDigest: copy.traits.imageDigest,
    handoff: copy.handoff,
    memory,
  })
const snapshots = () => {
  try {
    return readdirSync(join(folder, 'repo', 'snapshots')).length
  } catch {
    return 0
  }
}

test('a copy is restored on another host, where the desktop goes on in the same boot', async () => {
  await using here = await start()
  await using there = await start()
  const { id, boot } = await asleep(here)
  const copy = await make(here, id)
  expect(copy).toMatchObject({ kind: 'memory', traits: { driver: 'simulated', kind: 'cold' } })
  expect(copy.sizeBytes).toBeGreaterThan(0)
  expect(await restore(there, id, copy, 3)).toEqual({ state: 'hibernated' })
  expect(await there.observe(id)).toMatchObject({ memory: 'complete', domain: 'absent', generation: 3 })
  await there.awake(fenceOf(id, 4, 4), 'require', 'require')
  expect([await bootOf(there, id), await kept(there, id)]).toEqual([boot, 'one'])
})

test('a restore in place gives the disk of then, and no memory is used twice', async () => {
  await using bench = await start()
  const { id, boot } = await asleep(bench)
  const copy = await make(bench, id)
  await bench.awake(fenceOf(id, 2, 3), 'require', 'require')
  await write(bench, id, 'two')
  await bench.hibernated(fenceOf(id, 2, 4))
  const second = await make(bench, id, 2, 4, copy.snapshot)
  expect(snapshots()).toBe(2)
  expect(await restore(bench, id, copy, 5, false)).toEqual({ state: 'stopped' })
  expect(await bench.observe(id)).toMatchObject({ memory: 'none' })
  await bench.awake(fenceOf(id, 6, 6), 'allow', 'require')
  expect(await bootOf(bench, id)).not.toBe(boot)
  expect(await kept(bench, id)).toBe('one')
  await expect(restore(bench, id, second, 7)).rejects.toMatchObject({ code: 'hypervisor_failed' })
  expect(await kept(bench, id)).toBe('one')
})

test.each([
  ['restore.before-swap', 'two'],
  ['restore.after-spend', 'one'],
  ['restore.after-disk', 'one'],
])('a restore that is cut off at %s is finished when it is asked for again', async (name) => {
  await using bench = await start()
  const { id, boot } = await asleep(bench)
  const copy = await make(bench, id)
  await bench.crashAt(name, () => restore(bench, id, copy, 3))
  expect(await bench.observe(id)).toMatchObject({
    memory: name === 'restore.before-swap' ? 'complete' : expect.stringMatching(/spent|none/),
  })
  expect(await restore(bench, id, copy, 3)).toEqual({ state: 'hibernated' })
  await bench.awake(fenceOf(id, 4, 4), 'require', 'require')
  expect(await bootOf(bench, id)).toBe(boot)
})

test('a wake does not wait for a copy; that copy ends and leaves no snapshot', async () => {
  await using bench = await start()
  const { id, boot } = await asleep(bench)
  const waking = Promise.withResolvers<void>()
  bench.failpoints.set('copy.after-backup', async () => {
    expect(snapshots()).toBe(1)
    await bench.awake(fenceOf(id, 2, 3), 'require', 'require')
    waking.resolve()
  })
  await expect(make(bench, id)).rejects.toMatchObject({ code: 'superseded' })
  await waking.promise
  expect([await bootOf(bench, id), snapshots()]).toEqual([boot, 0])
  await expect(make(bench, id, 2, 3)).rejects.toMatchObject({ code: 'superseded' })
})

test('a damaged, unknown or foreign vault changes nothing of the desktop', async () => {
  await using bench = await start()
  const { id, boot } = await asleep(bench)
  const copy = await make(bench, id)
  for (const file of readdirSync(join(folder, 'repo', 'data'), { recursive: true, encoding: 'utf8' })) {
    const path = join(folder, 'repo', 'data', file)
    if (!statSync(path).isFile()) continue
    const bytes = readFileSync(path)
    bytes[40]! ^= 1
    chmodSync(path, 0o600)
    writeFileSync(path, bytes)
  }
  await expect(restore(bench, id, copy, 3)).rejects.toMatchObject({ code: 'copy_damaged' })
  knowVault(bench, 'other')
  await expect(restore(bench, id, copy, 4)).rejects.toMatchObject({ code: 'vault_unavailable' })
  rmSync(vaultOf(bench))
  await expect(restore(bench, id, copy, 5)).rejects.toMatchObject({ code: 'vault_unavailable' })
  await bench.awake(fenceOf(id, 6, 6), 'require', 'require')
  expect(await bootOf(bench, id)).toBe(boot)
})

test('a forgotten copy is gone from its vault, and the others stay whole', async () => {
  await using bench = await start()
  const { id } = await asleep(bench)
  const first = await make(bench, id)
  const second = await make(bench, id, 1, 2, first.snapshot)
  await bench.ask('copy.forget', { vault: 'main', snapshots: [first.snapshot] })
  await bench.ask('vault.keep', { vault: 'main', part: '1/1' })
  expect(snapshots()).toBe(1)
  await expect(restore(bench, id, first, 3)).rejects.toMatchObject({ code: 'copy_damaged' })
  expect(await restore(bench, id, second, 4)).toEqual({ state: 'hibernated' })
})
