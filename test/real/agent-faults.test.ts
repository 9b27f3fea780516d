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
import { Bench, fenceOf, spec } from '@dormouse/agent/testing/bench.ts'
import { type Fence, newId, Refusal } from '@dormouse/contract'
import { LibvirtHost } from '@dormouse/node-libvirt'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { waitFor } from '../wait-for.ts'
import { guestSpec, Stage, smallMiB } from './parts/agent-stage.ts'
import { HandedOn } from './parts/handed-on.ts'
import { KeptDesktop } from './parts/kept-desktop.ts'

type LibvirtBench = Bench<LibvirtDriver>

const long = process.env.DORMOUSE_TEST_LONG === '1'

/** So much that a save can be interrupted. */
const memoryMiB = 64
const mib = 1024 * 1024

let stage: Stage
const benches: LibvirtBench[] = []

/** Each on an installation of its own, which a failed test affects alone. Its disk and its memory can be made full. */
const desktops = new HandedOn(async () => {
  // The memory that a failed test has left.
  for (const name of readdirSync(stage.smallFolder)) rmSync(join(stage.smallFolder, name), { recursive: true })
  const [memory, disksDir] = [stage.smallFolder, stage.otherSmallFolder].map((folder) => join(folder, newId()))
  return KeptDesktop.boot(await newBench({ disksDir }, memory), memoryMiB)
})

beforeAll(async () => {
  stage = await Stage.start()
})
afterAll(async () => {
  for (const each of benches) await each.driver.close()
  await stage?.[Symbol.asyncDispose]()
})

async function newBench(...settings: [Parameters<Stage['bench']>[1]?, string?]): Promise<LibvirtBench> {
  const bench = await stage.bench(`bench-${benches.length + 1}`, ...settings)
  benches.push(bench)
  return bench
}

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

/** It is whole, and is given back without the image that it woke from. */
async function giveBackWhole(desktop: KeptDesktop): Promise<void> {
  const { bench, id } = desktop
  await insist(() => desktop.expectKept())
  await bench.tidy(desktop.fence)
  expect(saveFile(bench, id)).toBeUndefined()
  desktops.giveBack(desktop)
}

/** Wakes it from its saved memory, however often the host is unreachable. */
async function wake({ bench }: KeptDesktop, fence: Fence): Promise<void> {
  const woken = await insist(() => bench.awake(fence, 'require', 'require', guestSpec))
  expect(woken).toMatchObject({ resumedFrom: 'memory', ready: true })
}

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

test('on a disk with no free byte, destroys free space, and new work does not use the space reserved for them', async () => {
  const folder = mkdtempSync(join(stage.smallFolder, 'agent-'))
  const makeDriver = () => new SimulatedDriver({ folder: join(folder, 'simulated') })
  await using small = await Bench.over({ folder, makeDriver })
  const [kept, fresh, awake] = [newId(), newId(), newId()]
  await small.awake(fenceOf(awake, 1, 1))
  small.driver.standStill(awake, 'space')
  await small.awake(fenceOf(kept, 1, 1))
  await small.hibernated(fenceOf(kept, 1, 2))
  const filler = fill(folder)
  const refused = { code: 'host_disk_full' }
  await expect(small.awake(fenceOf(fresh, 1, 1))).rejects.toMatchObject(refused)
  // Destroys that free nothing: what they have written uses the reserve's space and nothing else.
  for (let i = 0; i < 5; i++) await small.destroyed(fenceOf(newId(), 1, 1))
  await small.parts.space.check()
  // Nor does a guest that is paused: it would take it at once.
  expect(await small.observe(awake)).toMatchObject({ domain: 'paused' })
  expect(small.parts.space.problem).toMatch(/1 of its desktops are paused/)
  await expect(small.awake(fenceOf(fresh, 1, 1))).rejects.toMatchObject(refused)
  await expect(small.awake(fenceOf(kept, 2, 3))).rejects.toMatchObject(refused)
  // The reserve gets free space before anything else does.
  filler.giveBack(3 * 4_096)
  await expect(small.awake(fenceOf(fresh, 1, 1))).rejects.toMatchObject(refused)
  // An agent that dies with a full disk comes back to it.
  await small.crash()
  expect(small.parts.space.problem).toMatch(/state folder is full/)
  await small.parts.space.check()
  await small.destroyed(fenceOf(kept, 2, 4))
  expect(existsSync(join(small.memoryFolder, kept))).toBe(false)
  filler.free()
  await small.parts.space.check()
  await waitFor(() => small.parts.watch.running().some(({ desktopId }) => desktopId === awake))
  expect(small.parts.space.problem).toBeNull()
  await small.awake(fenceOf(fresh, 1, 1))
})

test('a desktop sleeps on a disk that templates have filled: they give way', async () => {
  const folder = mkdtempSync(join(stage.smallFolder, 'agent-'))
  const makeDriver = () => new SimulatedDriver({ folder: join(folder, 'simulated') })
  await using small = await Bench.over({ folder, makeDriver, templatesMiB: 1_000 })
  const { templates } = small.parts
  await small.awake(fenceOf(newId(), 1, 1))
  await templates.settled()
  const [first] = readdirSync(join(folder, 'templates'))
  const id = newId()
  await small.awake(fenceOf(id, 1, 1), 'allow', 'make', { ...spec, memoryMiB: smallMiB / 2 })
  await templates.settled()
  expect(templates.facts).toHaveLength(2)
  // A simulated one is small.
  writeFileSync(join(folder, 'templates', first!, 'filler'), Buffer.alloc(0.75 * smallMiB * mib))
  await small.hibernated(fenceOf(id, 1, 2))
  expect(templates.facts).toMatchObject([{ memoryMiB: smallMiB / 2 }])
})

// At length only, as those of its kind: `faults` shows the same over the API, and `test/crash` at every step.
test.runIf(long)('an agent that dies while memory is being saved finds the image, and loses nothing', async () => {
  const desktop = await desktops.take()
  const { bench, id } = desktop
  const fence = desktop.nextTurn()
  bench.hibernated(fence).catch(() => undefined)
  await saving(bench, id)
  await bench.crash()
  await insist(() => bench.hibernated(fence))
  expect(await bench.observe(id)).toMatchObject({ domain: 'absent', memory: 'complete' })
  await wake(desktop, desktop.nextLife())
  await giveBackWhole(desktop)
})

test.runIf(long)(
  'a save ends only when its domain is gone: before that, its image could belong to a guest that went on',
  async () => {
    const desktop = await desktops.take()
    const { bench, id } = desktop
    const saved = bench.hibernated(desktop.nextTurn())
    await saving(bench, id)
    await bench.driver.jobEnded(id)
    expect(await bench.driver.domain(id)).toBeUndefined()
    await saved
    await wake(desktop, desktop.nextLife())
    await giveBackWhole(desktop)
  },
)

test.runIf(long)('an agent that dies while memory is being restored starts over, from the same image', async () => {
  const desktop = await desktops.take()
  const { bench } = desktop
  await bench.hibernated(desktop.nextTurn())
  const fence = desktop.nextLife()
  bench.awake(fence, 'require', 'require', guestSpec).catch(() => undefined)
  await waitFor(async () => (await stage.domains(bench)).length > 0)
  await bench.crash()
  await wake(desktop, fence)
  await giveBackWhole(desktop)
})

test.runIf(long)(
  'a libvirtd that is killed while memory is being saved leaves a desktop that runs or is saved, never half',
  async () => {
    const desktop = await desktops.take()
    const { bench, id } = desktop
    const fence = desktop.nextTurn()
    const hibernating = bench.hibernated(fence).catch((error: unknown) => error)
    await saving(bench, id)
    await stage.libvirtd.killDaemon('SIGKILL')
    await stage.libvirtd.restartDaemon()
    await hibernating
    const { domain, memory } = await insist(() => bench.observe(id))
    expect(['running/partial', 'paused/partial', 'running/none', 'absent/complete']).toContain(`${domain}/${memory}`)
    await insist(() => bench.hibernated(fence))
    await wake(desktop, desktop.nextLife())
    await giveBackWhole(desktop)
  },
)

test.runIf(long)(
  'a libvirtd that is killed and comes back leaves every desktop running, with nothing to report',
  async () => {
    const desktop = await desktops.take()
    const { bench, id } = desktop
    await waitFor(() => bench.parts.watch.running().length === 1)
    bench.said.length = 0
    await stage.libvirtd.killDaemon('SIGKILL')
    await stage.libvirtd.restartDaemon()
    await insist(() => bench.observe(id))
    await insist(() => bench.parts.watch.checkAll())
    expect(bench.said).toEqual([])
    await giveBackWhole(desktop)
  },
)

test.runIf(long)(
  'a full disk refuses a hibernation before it begins, or ends it; the guest goes on either way',
  async () => {
    const desktop = await desktops.take()
    const { bench, id } = desktop
    const filler = join(stage.smallFolder, 'filler')
    const refused = { code: 'host_disk_full' }
    writeFileSync(filler, Buffer.alloc((smallMiB - 100) * 2 ** 20))
    await expect(bench.hibernated(desktop.nextTurn())).rejects.toMatchObject(refused)
    // With a small size in the journal the save begins, and fails if the disk ends.
    await bench.parts.journal.note(desktop.fence, { spec: { ...guestSpec, memoryMiB: 64 } })
    await expect(bench.hibernated(desktop.nextTurn())).rejects.toMatchObject(refused)
    expect(saveFile(bench, id)).toBeUndefined()
    await desktop.expectKept()
    rmSync(filler)
    await bench.parts.journal.note(desktop.fence, { spec: guestSpec })
    expect(await bench.hibernated(desktop.nextTurn())).toMatchObject({ memoryBytes: expect.any(Number) })
    await wake(desktop, desktop.nextLife())
    await giveBackWhole(desktop)
  },
)

test.runIf(long)(
  'a guest that a full disk has paused goes on when there is space, and what it wrote is whole',
  async () => {
    const desktop = await desktops.take()
    const { bench, id } = desktop
    const filler = fill(stage.otherSmallFolder)
    const write = 'dd if=/dev/urandom of=/root/data bs=1M count=16 2>/dev/null; sync; echo $? > /run/ended'
    // The guest may be paused before its agent answers.
    await bench.run(id, `(${write}) > /dev/null 2>&1 < /dev/null &`).catch(() => undefined)
    await waitFor(() => bench.parts.space.problem, 60_000)
    expect(bench.parts.space.problem).toMatch(/1 of its desktops are paused/)
    expect(await bench.observe(id)).toMatchObject({ domain: 'paused', reason: 'ioerror' })
    // Neither an agent nor a libvirtd that starts again takes it for a guest that somebody has suspended.
    await stage.libvirtd.killDaemon('SIGKILL')
    await stage.libvirtd.restartDaemon()
    await bench.crash()
    await insist(() => bench.parts.space.check())
    expect(await insist(() => bench.observe(id))).toMatchObject({ domain: 'paused', reason: 'ioerror' })
    filler.free()
    await bench.parts.space.check()
    await waitFor(() => bench.parts.watch.running().length === 1)
    expect(bench.parts.space.problem).toBeNull()
    await waitFor(async () => (await insist(() => bench.run(id, 'cat /run/ended'))) === '0', 120_000)
    expect(await bench.run(id, 'stat -c %s /root/data')).toBe(String(16 * 2 ** 20))
    await giveBackWhole(desktop)
  },
)

// At length only: `faults` kills a QEMU over the API.
test.runIf(long)(
  'a QEMU that dies, and a guest that powers off, are reported with the reason; the disk can be booted again',
  async () => {
    const desktop = await desktops.take()
    const { bench, id } = desktop
    await waitFor(() => bench.parts.watch.running().length === 1)
    bench.said.length = 0
    await bench.run(id, 'echo off > /root/note; sync; poweroff', 10).catch(() => undefined)
    await waitFor(() => bench.said.some(({ name }) => name === 'desktop.observed'))
    expect(bench.said.find(({ name }) => name === 'desktop.observed')?.report).toMatchObject({
      desktopId: id,
      domain: 'absent',
      disk: true,
      reason: expect.stringContaining('shutdown'),
    })
    const woken = await bench.awake(desktop.nextLife(), 'allow', 'require', guestSpec)
    expect(woken).toMatchObject({ resumedFrom: 'disk', ready: true, path: 'boot' })
    expect(await bench.run(id, 'cat /root/note')).toBe('off')
    await desktop.leaveWitness(memoryMiB)
    await giveBackWhole(desktop)
  },
)

test.runIf(long)('two installations on one libvirtd do not see or touch each other’s desktops', async () => {
  const mine = await desktops.take()
  const theirs = await KeptDesktop.boot(await newBench({ network: 'nat' }), memoryMiB)
  const [bench, other] = [mine.bench, theirs.bench]
  const [here, there] = await Promise.all([
    bench.ask('host.inventory', { known: [] }),
    other.ask('host.inventory', { known: [] }),
  ])
  expect(here.items.map(({ desktopId }) => desktopId)).toEqual([mine.id])
  expect(there.items.map(({ desktopId }) => desktopId)).toEqual([theirs.id])
  await expect(bench.observe(theirs.id)).rejects.toMatchObject({ code: 'unknown_desktop' })
  await bench.destroyed(fenceOf(theirs.id, 5, 5))
  expect(await other.observe(theirs.id)).toMatchObject({ domain: 'running', disk: true })
  const host = await LibvirtHost.open({ socketPath: stage.libvirtd.socketPath })
  const { cpus } = await host.nodeInfo()
  expect(await other.driver.facts()).toMatchObject({ processors: cpus, ailment: null })
  const [pools, networks] = await Promise.all([host.storage.pools.list(), host.networks.list()])
  for (const { installationId } of [bench, other]) {
    expect(pools.filter(({ name }) => name.includes(installationId))).toHaveLength(1)
  }
  expect(networks.map(({ name }) => name)).toEqual([`dormouse-${other.installationId}`])
  host.close()
  await bench.destroyed(mine.nextTurn())
  expect(await stage.domains(bench)).toEqual([])
  expect(await other.observe(theirs.id)).toMatchObject({ domain: 'running' })
  desktops.giveBack(theirs)
})

test.runIf(long)('a destroy overtakes a save, and nothing of the desktop is left', async () => {
  const desktop = await desktops.take()
  const { bench, id } = desktop
  const superseded = expect(bench.hibernated(desktop.nextTurn())).rejects.toMatchObject({ code: 'superseded' })
  await saving(bench, id)
  await bench.destroyed(desktop.nextTurn())
  await superseded
  expect(await stage.domains(bench)).toEqual([])
  expect(existsSync(join(bench.memoryFolder, id))).toBe(false)
  expect(existsSync(join(bench.folder, 'disks', `${id}.qcow2`))).toBe(false)
  expect(await bench.ask('host.inventory', { known: [] })).toEqual({ items: [] })
})
