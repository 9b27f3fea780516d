// Guarantee: a desktop moves between two real hosts with its memory and its disk, awake and asleep; and when a step of the
// move is cut, or an agent, a libvirtd or a QEMU dies, it is whole on the old host until the decision and on the new one from
// then on.
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { LibvirtDriver } from '@dormouse/agent/driver/libvirt/libvirt.ts'
import { type Bench, fenceOf } from '@dormouse/agent/testing/bench.ts'
import { TestMove } from '@dormouse/agent/testing/move.ts'
import { type MoveKind, newId } from '@dormouse/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { waitFor } from '../wait-for.ts'
import { guestSpec, leaveWitness, lookAt, Stage, type Witness } from './parts/agent-stage.ts'

const long = process.env.DORMOUSE_TEST_LONG === '1'
const memoryMiB = long ? 64 : 8

let stages: Stage[] = []
let home: Bench<LibvirtDriver>
let away: Bench<LibvirtDriver>
/** The one desktop: awake at home before and after each test. */
const id = newId()
let before: Witness
let fileHash: string
beforeAll(async () => {
  stages = await Promise.all([Stage.start(), Stage.start()])
  const installationId = newId()
  home = await stages[0]!.bench('move', {}, undefined, installationId)
  away = await stages[1]!.bench('move', {}, undefined, installationId)
  await home.awake(fenceOf(id, 1, 1), 'allow', 'make', guestSpec)
  before = await leaveWitness(home, id, memoryMiB)
  await home.run(id, 'dd if=/dev/urandom of=/root/file bs=1M count=8 2>/dev/null; sync')
  fileHash = await home.run(id, 'crc32 /root/file')
})
afterAll(async () => {
  for (const bench of [home, away]) {
    bench?.house.moves.close()
    await bench?.driver.close()
  }
  for (const stage of stages) await stage[Symbol.asyncDispose]()
})

let turn = 10
const nextTurn = () => {
  turn += 10
  return turn
}
const moveOf = (kind: MoveKind, from = home, to = away) =>
  new TestMove({ from, to, desktopId: id, kind, generation: 1, turn: nextTurn(), spec: guestSpec })

const succeeds = (work: Promise<unknown>) =>
  work.then(
    () => true,
    () => false,
  )

/** It runs on that host, goes on, and holds what it held; nothing is on the other one. */
async function expectAt(bench: Bench<LibvirtDriver>, other: Bench<LibvirtDriver>): Promise<void> {
  // The guest agent's connection takes a moment after a move.
  await waitFor(() => succeeds(bench.run(id, 'true')), 60_000)
  const after = await lookAt(bench, id)
  expect(after).toMatchObject({ bootId: before.bootId, memoryHash: before.memoryHash })
  expect(after.counter).toBeGreaterThanOrEqual(before.counter)
  await waitFor(async () => (await lookAt(bench, id)).counter > after.counter, 30_000)
  // Read from the disk, not from memory.
  expect(await bench.run(id, 'echo 3 >/proc/sys/vm/drop_caches; crc32 /root/file')).toBe(fileHash)
  before = after
  expect((await other.ask('host.inventory', {})).items).toEqual([])
  expect(await other.driver.hasDisk(id)).toBe(false)
}

test('it moves awake with its memory and its disk, and back asleep', async () => {
  const live = moveOf('live')
  expect(await live.check()).toBeNull()
  const took: string[] = []
  for (const step of ['begin', 'prepare', 'send', 'arrive', 'settle', 'release'] as const) {
    const started = performance.now()
    await live[step]()
    took.push(`${step} ${Math.round(performance.now() - started)}`)
  }
  console.info(`ms: ${took.join(', ')}`)
  await expectAt(away, home)
  await away.hibernated(fenceOf(id, 1, nextTurn()))
  const cold = moveOf('cold', away, home)
  expect(await cold.check()).toBeNull()
  const started = performance.now()
  expect(await cold.whole()).toBe('hibernated')
  console.info(`moved asleep in ${Math.round(performance.now() - started)} ms`)
  const woken = await home.awake(fenceOf(id, 1, nextTurn()), 'require', 'require', guestSpec)
  expect(woken).toMatchObject({ resumedFrom: 'memory' })
  await expectAt(home, away)
})

/** Sends slowly, and does something when some of the memory is there; the move fails, and the guest runs on by itself. */
async function failsInMidMemory(interrupt: () => unknown): Promise<void> {
  home.moves = { ...home.moves, mibPerSec: 16 }
  await home.crash()
  const move = moveOf('live')
  await move.begin()
  await move.prepare()
  const sending = move.send().catch((error: unknown) => error)
  const carried = () => (away.house.moves.of(id) as { carrier?: { bytes: number } } | undefined)?.carrier?.bytes ?? 0
  await waitFor(() => carried() > 20 * 1024 * 1024, 60_000)
  await interrupt()
  expect(await sending).toMatchObject({ code: expect.stringMatching(/hypervisor_failed|host_unreachable/) })
  await waitFor(async () => (await succeeds(move.abandon())) && (await move.keep().catch(() => '')) === 'awake', 60_000)
  home.moves = { ...home.moves, mibPerSec: undefined }
  await home.crash()
  await expectAt(home, away)
}

test('a carrier that is cut while memory is sent leaves it running where it was', () =>
  failsInMidMemory(() => away.house.gate.close()))

test.runIf(long)('a carrier that falls silent is given up', async () => {
  const normal = { beatMs: 1_000, silentMs: 60_000, stallMs: 60_000 }
  // The other side's beats are too rare for this one.
  home.moves = { ...home.moves, times: { ...normal, silentMs: 4_000 } }
  away.moves = { ...away.moves, times: { ...normal, beatMs: 600_000 } }
  await away.crash()
  await failsInMidMemory(() => undefined)
  home.moves = { ...home.moves, times: normal }
  away.moves = { ...away.moves, times: normal }
  await Promise.all([home.crash(), away.crash()])
})

const steps = ['begin', 'prepare', 'send', 'arrive'] as const
const deaths = [
  ['old', 'begin'],
  ['new', 'prepare'],
  ['old', 'send'],
  ['new', 'send'],
  ['old', 'arrive'],
  ['new', 'arrive'],
] as const

test.runIf(long).each(deaths)(
  'an agent of the %s host that dies after "%s" leaves what goes back and runs on',
  async (host, last) => {
    const move = moveOf('live')
    for (const step of steps.slice(0, steps.indexOf(last) + 1)) await move[step]()
    await (host === 'old' ? home : away).crash()
    expect(await move.back()).toBe('awake')
    await expectAt(home, away)
  },
)

test.runIf(long)('both agents die right before the decision, and it goes on there', async () => {
  const move = moveOf('live')
  await move.across()
  await Promise.all([home.crash(), away.crash()])
  expect(await move.settle()).toBe('awake')
  await move.release()
  await expectAt(away, home)
  await moveOf('live', away, home).whole()
  await expectAt(home, away)
})

test.runIf(long)('a host without the key gets nothing', async () => {
  const move = moveOf('live')
  await move.begin()
  await move.prepare()
  await expect(move.send(randomBytes(32).toString('base64url'))).rejects.toMatchObject({ code: 'hypervisor_failed' })
  expect(await move.back()).toBe('awake')
  await expectAt(home, away)
})

const libvirtdDies = async (stage: Stage) => {
  await stage.libvirtd.killDaemon()
  await stage.libvirtd.restartDaemon()
}

test.runIf(long)('a libvirtd of the old host that dies while memory is sent leaves it running there', () =>
  failsInMidMemory(() => libvirtdDies(stages[0]!)),
)

test.runIf(long)('a libvirtd of the new host that dies while memory is sent leaves it running where it was', () =>
  failsInMidMemory(() => libvirtdDies(stages[1]!)),
)

test.runIf(long)('both libvirtds die right before the decision, and it goes on there', async () => {
  const move = moveOf('live')
  await move.across()
  for (const stage of stages) await libvirtdDies(stage)
  await waitFor(() => succeeds(Promise.all([home.driver.domains(), away.driver.domains()])), 60_000)
  expect(await move.settle()).toBe('awake')
  await move.release()
  await expectAt(away, home)
  await moveOf('live', away, home).whole()
  await expectAt(home, away)
})

test.runIf(long)('a QEMU of the new host that dies while memory is sent leaves it running where it was', () =>
  failsInMidMemory(() => {
    const { pid } = stages[1]!.libvirtd
    const name = `qemu/dormouse-${home.installationId.slice(-12)}-${id}.pid`
    const inside = Number(readFileSync(`/proc/${pid}/root/run/libvirt/${name}`, 'utf8'))
    return stages[1]!.libvirtd.exec('/bin/kill', '-9', String(inside))
  }),
)

test('in the end its file system has no fault', async () => {
  await home.run(id, 'sync')
  await home.driver.kill(id)
  await stages[0]!.checkDisk(home, id)
  await home.destroyed(fenceOf(id, 1, nextTurn()))
})
