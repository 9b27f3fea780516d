import {
  closeSync,
  existsSync,
  mkdtempSync,
  openSync,
  readdirSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { LibvirtDriver } from '@dormouse/agent/driver/libvirt/libvirt.ts'
import { SimulatedDriver } from '@dormouse/agent/driver/simulated/simulated.ts'
import { Bench, fenceOf } from '@dormouse/agent/testing/bench.ts'
import { newId, Refusal } from '@dormouse/contract'
import { LibvirtHost } from '@dormouse/node-libvirt'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { waitFor } from '../wait-for.ts'
import { guestSpec, leaveWitness, lookAt, Stage, smallMiB, type Witness } from './parts/agent-stage.ts'

type LibvirtBench = Bench<LibvirtDriver>

let stage: Stage
const benches: LibvirtBench[] = []

beforeAll(async () => {
  stage = await Stage.start()
})
afterAll(async () => {
  for (const each of benches) await each.driver.close()
  await stage?.[Symbol.asyncDispose]()
})

/** An installation of its own: what a test that fails leaves behind is no other's trouble. */
async function newBench(...settings: [Parameters<Stage['bench']>[1]?, string?]): Promise<LibvirtBench> {
  const bench = await stage.bench(`bench-${benches.length + 1}`, ...settings)
  benches.push(bench)
  return bench
}

const firstWake = (id: string, on: LibvirtBench) => on.awake(fenceOf(id, 1, 1), 'allow', 'make', guestSpec)

const wake = ({ bench, id, generation, turn }: Kept) =>
  bench.awake(fenceOf(id, generation, turn), 'require', 'require', guestSpec)

/** A desktop that is awake, and what it must keep. */
interface Kept {
  bench: LibvirtBench
  id: string
  before: Witness
  generation: number
  turn: number
}

/** It goes from test to test, for an emulated boot takes long. A test that fails hands nothing on. */
let kept: Kept | undefined

async function awakeOne(): Promise<Kept> {
  const found = kept
  kept = undefined
  return found ?? bootOne()
}

async function bootOne(): Promise<Kept> {
  const [bench, id] = [await newBench(), newId()]
  await firstWake(id, bench)
  return { bench, id, before: await leaveWitness(bench, id, 64), generation: 1, turn: 1 }
}

/** The fence of the next command. */
const nextTurn = (of: Kept) => fenceOf(of.id, of.generation, ++of.turn)

/** Asks again while the answer is that it may pass, as the control plane does. */
async function insist<T>(ask: () => Promise<T>): Promise<T> {
  for (let left = 200; ; left--) {
    try {
      return await ask()
    } catch (error) {
      const final = error instanceof Refusal && !['host_unreachable', 'guest_unavailable'].includes(error.code)
      if (final || left === 0) throw error
    }
    await sleep(100)
  }
}

const saveFile = (on: LibvirtBench, id: string) => {
  const folder = join(on.memoryFolder, id)
  const name = existsSync(folder) && readdirSync(folder).find((each) => each.endsWith('.save'))
  return name ? join(folder, name) : undefined
}

/** A save is under way: its file has begun to grow. */
const saving = (on: LibvirtBench, id: string) =>
  waitFor(() => {
    const file = saveFile(on, id)
    return file && (statSync(file, { throwIfNoEntry: false })?.size ?? 0) > 1_000_000
  })

/** Memory and boot are those from before. The desktop is handed on, without the image that it woke from. */
async function expectWhole(of: Kept): Promise<void> {
  const { bench, id, generation, turn } = of
  const { bootId, memoryHash } = of.before
  expect(await insist(() => lookAt(bench, id))).toMatchObject({ bootId, memoryHash })
  await bench.tidy(fenceOf(id, generation, turn))
  expect(saveFile(bench, id)).toBeUndefined()
  kept = of
}

/** It wakes from its saved memory, and is whole. */
async function expectWokenWhole(of: Kept): Promise<void> {
  of.generation++
  of.turn++
  expect(await insist(() => wake(of))).toEqual({ resumedFrom: 'memory', ready: true })
  await expectWhole(of)
}

test('an agent that dies while memory is being saved finds the image, and loses nothing', async () => {
  const of = await awakeOne()
  const { bench, id } = of
  const fence = nextTurn(of)
  bench.hibernated(fence).catch(() => undefined)
  await saving(bench, id)
  await bench.crash()
  await insist(() => bench.hibernated(fence))
  expect(await bench.observe(id)).toMatchObject({ domain: 'absent', memory: 'complete' })
  await expectWokenWhole(of)
})

test('a save is not over before its domain is gone: until then its image would pass for one of a guest that went on', async () => {
  const of = await awakeOne()
  const { bench, id } = of
  const saved = bench.hibernated(nextTurn(of))
  await saving(bench, id)
  await bench.driver.jobEnded(id)
  expect(await bench.driver.domain(id)).toBeUndefined()
  await saved
  await expectWokenWhole(of)
})

test('an agent that dies while memory is being restored starts over, from the same image', async () => {
  const of = await awakeOne()
  const { bench } = of
  await bench.hibernated(nextTurn(of))
  of.generation++
  of.turn++
  wake(of).catch(() => undefined)
  await waitFor(async () => (await stage.domains(bench)).length > 0)
  await bench.crash()
  expect(await insist(() => wake(of))).toEqual({ resumedFrom: 'memory', ready: true })
  await expectWhole(of)
})

test('a libvirtd that is killed while memory is being saved leaves a desktop that runs or is saved, never half', async () => {
  const of = await awakeOne()
  const { bench, id } = of
  const fence = nextTurn(of)
  const hibernating = bench.hibernated(fence).catch((error: unknown) => error)
  await saving(bench, id)
  await stage.libvirtd.killDaemon('SIGKILL')
  await stage.libvirtd.restartDaemon()
  await hibernating
  const { domain, memory } = await insist(() => bench.observe(id))
  expect(['running/partial', 'paused/partial', 'running/none', 'absent/complete']).toContain(`${domain}/${memory}`)
  await insist(() => bench.hibernated(fence))
  await expectWokenWhole(of)
})

test('a libvirtd that is killed and comes back leaves every desktop running, with nothing to report', async () => {
  const of = await awakeOne()
  const { bench, id } = of
  await waitFor(() => bench.house.watch.running().length === 1)
  bench.said.length = 0
  await stage.libvirtd.killDaemon('SIGKILL')
  await stage.libvirtd.restartDaemon()
  await insist(() => bench.observe(id))
  await insist(() => bench.house.watch.checkAll())
  expect(bench.said).toEqual([])
  await expectWhole(of)
})

test('a destroy overtakes a save, and nothing of the desktop is left', async () => {
  const of = await awakeOne()
  const { bench, id } = of
  const superseded = expect(bench.hibernated(nextTurn(of))).rejects.toMatchObject({ code: 'superseded' })
  await saving(bench, id)
  await bench.destroyed(nextTurn(of))
  await superseded
  expect(await stage.domains(bench)).toEqual([])
  expect(existsSync(join(bench.memoryFolder, id))).toBe(false)
  expect(existsSync(join(bench.folder, 'disks', `${id}.qcow2`))).toBe(false)
})

test('a QEMU that dies, and a guest that powers off, are reported with the reason; the disk can be booted again', async () => {
  const [bench, id] = [await newBench(), newId()]
  await firstWake(id, bench)
  await waitFor(() => bench.house.watch.running().length === 1)
  bench.said.length = 0
  await bench.run(id, 'echo kept > /root/note; sync; poweroff', 10).catch(() => undefined)
  await waitFor(() => bench.said.some(({ name }) => name === 'desktop.observed'))
  expect(bench.said.find(({ name }) => name === 'desktop.observed')?.report).toMatchObject({
    desktopId: id,
    domain: 'absent',
    disk: true,
    reason: expect.stringContaining('shutdown'),
  })
  expect(await bench.awake(fenceOf(id, 2, 2), 'allow', 'require', guestSpec)).toEqual({
    resumedFrom: 'disk',
    ready: true,
  })
  expect(await bench.run(id, 'cat /root/note')).toBe('kept')
  await bench.destroyed(fenceOf(id, 2, 3))
})

test('a full disk refuses a hibernation before it begins, or ends it; the guest goes on either way', async () => {
  const small = await newBench({}, join(stage.smallFolder, 'memory'))
  const id = newId()
  await firstWake(id, small)
  const before = await leaveWitness(small, id, 64)
  const filler = join(stage.smallFolder, 'filler')
  const refused = { code: 'host_disk_full' }
  writeFileSync(filler, Buffer.alloc((smallMiB - 100) * 2 ** 20))
  await expect(small.hibernated(fenceOf(id, 1, 2))).rejects.toMatchObject(refused)
  // Believed to be small, it is begun, and meets the end of the disk half-way.
  await small.house.journal.note(fenceOf(id, 1, 2), { spec: { ...guestSpec, memoryMiB: 64 } })
  await expect(small.hibernated(fenceOf(id, 1, 3))).rejects.toMatchObject(refused)
  expect(saveFile(small, id)).toBeUndefined()
  expect(await lookAt(small, id)).toMatchObject({ bootId: before.bootId, memoryHash: before.memoryHash })
  rmSync(filler)
  expect(await small.hibernated(fenceOf(id, 1, 4))).toMatchObject({ memoryBytes: expect.any(Number) })
  await small.destroyed(fenceOf(id, 1, 5))
})

/** Fills a folder's file system to its last byte. */
function fill(folder: string): { free: () => void; giveBack: (bytes: number) => void } {
  const path = join(folder, 'filler')
  const file = openSync(path, 'w')
  for (const bytes of [1_048_576, 4_096, 1]) {
    try {
      for (;;) writeSync(file, Buffer.alloc(bytes))
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error
    }
  }
  closeSync(file)
  return {
    free: () => rmSync(path),
    giveBack: (bytes) => truncateSync(path, Math.floor((statSync(path).size - bytes) / 4_096) * 4_096),
  }
}

test('a disk that is full to its last byte is emptied by destroying desktops, and new work does not take the room for that', async () => {
  const folder = mkdtempSync(join(stage.smallFolder, 'agent-'))
  const makeDriver = () => new SimulatedDriver({ folder: join(folder, 'simulated') })
  await using small = await Bench.over({ folder, makeDriver })
  const [kept, fresh, awake] = [newId(), newId(), newId()]
  await small.awake(fenceOf(awake, 1, 1))
  small.driver.starve(awake)
  await small.awake(fenceOf(kept, 1, 1))
  await small.hibernated(fenceOf(kept, 1, 2))
  const filler = fill(folder)
  const refused = { code: 'host_disk_full' }
  await expect(small.awake(fenceOf(fresh, 1, 1))).rejects.toMatchObject(refused)
  // Destroys that free nothing: what they have written stands where the reserve was, in the place of nothing else.
  for (let i = 0; i < 5; i++) await small.destroyed(fenceOf(newId(), 1, 1))
  await small.house.space.check()
  // Nor does a guest that is paused: it would take it at once.
  expect(await small.observe(awake)).toMatchObject({ domain: 'paused' })
  expect(small.house.space.problem).toMatch(/1 of its desktops are paused/)
  await expect(small.awake(fenceOf(fresh, 1, 1))).rejects.toMatchObject(refused)
  await expect(small.awake(fenceOf(kept, 2, 3))).rejects.toMatchObject(refused)
  // A little room is the reserve's before it is anybody else's.
  filler.giveBack(3 * 4_096)
  await expect(small.awake(fenceOf(fresh, 1, 1))).rejects.toMatchObject(refused)
  // An agent that dies with a full disk comes back to it.
  await small.crash()
  expect(small.house.space.problem).toMatch(/state folder is full/)
  await small.house.space.check()
  await small.destroyed(fenceOf(kept, 2, 4))
  expect(existsSync(join(small.memoryFolder, kept))).toBe(false)
  filler.free()
  await small.house.space.check()
  await waitFor(() => small.house.watch.running().some(({ desktopId }) => desktopId === awake))
  expect(small.house.space.problem).toBeNull()
  await small.awake(fenceOf(fresh, 1, 1))
})

test('a guest that a full disk has paused goes on when there is room, and what it wrote is whole', async () => {
  const disksDir = join(stage.smallFolder, 'disks')
  await using small = await stage.bench('paused', { disksDir })
  const id = newId()
  await firstWake(id, small)
  const before = await leaveWitness(small, id)
  const filler = fill(stage.smallFolder)
  const write = 'dd if=/dev/urandom of=/root/data bs=1M count=64 2>/dev/null; sync; echo $? > /run/ended'
  await small.run(id, `(${write}) > /dev/null 2>&1 < /dev/null &`)
  await waitFor(() => small.house.space.problem, 60_000)
  expect(small.house.space.problem).toMatch(/1 of its desktops are paused/)
  expect(await small.observe(id)).toMatchObject({ domain: 'paused', reason: 'ioerror' })
  // Neither an agent nor a libvirtd that starts again takes it for a guest that somebody has suspended.
  await stage.libvirtd.killDaemon('SIGKILL')
  await stage.libvirtd.restartDaemon()
  await small.crash()
  await insist(() => small.house.space.check())
  expect(await insist(() => small.observe(id))).toMatchObject({ domain: 'paused', reason: 'ioerror' })
  filler.free()
  await small.house.space.check()
  await waitFor(() => small.house.watch.running().length === 1)
  expect(small.house.space.problem).toBeNull()
  await waitFor(async () => (await insist(() => small.run(id, 'cat /run/ended'))) === '0', 120_000)
  expect(await small.run(id, 'stat -c %s /root/data')).toBe(String(64 * 2 ** 20))
  expect(await lookAt(small, id)).toMatchObject({ bootId: before.bootId, memoryHash: before.memoryHash })
  await small.destroyed(fenceOf(id, 1, 2))
})

test('two installations on one libvirtd do not see each other, whatever they are told', async () => {
  const [bench, other] = [await newBench(), await newBench({ network: 'nat' })]
  const [mine, theirs] = [newId(), newId()]
  await Promise.all([firstWake(mine, bench), firstWake(theirs, other)])
  const [here, there] = await Promise.all([bench.ask('host.inventory', {}), other.ask('host.inventory', {})])
  expect(here.items.map(({ desktopId }) => desktopId)).toEqual([mine])
  expect(there.items.map(({ desktopId }) => desktopId)).toEqual([theirs])
  await expect(bench.observe(theirs)).rejects.toMatchObject({ code: 'unknown_desktop' })
  await bench.destroyed(fenceOf(theirs, 5, 5))
  expect(await other.observe(theirs)).toMatchObject({ domain: 'running', disk: true })
  const host = await LibvirtHost.open({ socketPath: stage.libvirtd.socketPath })
  const { cpus } = await host.nodeInfo()
  expect(await other.driver.facts()).toMatchObject({ processors: cpus, ailment: null })
  const [pools, networks] = await Promise.all([host.storage.pools.list(), host.networks.list()])
  for (const { installationId } of [bench, other]) {
    expect(pools.filter(({ name }) => name.includes(installationId))).toHaveLength(1)
  }
  expect(networks.map(({ name }) => name)).toEqual([`dormouse-${other.installationId}`])
  host.close()
  await bench.destroyed(fenceOf(mine, 1, 2))
  expect(await other.observe(theirs)).toMatchObject({ domain: 'running' })
  await other.destroyed(fenceOf(theirs, 1, 2))
  expect(await stage.domains(bench)).toEqual([])
})
