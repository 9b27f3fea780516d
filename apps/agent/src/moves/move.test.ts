// Guarantee: a desktop that moves is whole in exactly one place after every failure: on the old host until the control plane
// has decided, on the new one from then on. Whichever agent is killed, whatever is cut, and however often a step is repeated.
import { readdirSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type MoveKind, newId } from '@dormouse/contract'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { Bench, fenceOf, until } from '../testing/bench.ts'
import { TestMove } from '../testing/move.ts'

const kinds: MoveKind[] = ['live', 'cold']

let home: Bench
let away: Bench
let id: string

beforeEach(async () => {
  const installationId = newId()
  home = await Bench.start({ installationId })
  away = await Bench.start({ installationId })
  id = newId()
})
afterEach(async () => {
  await home[Symbol.asyncDispose]()
  await away[Symbol.asyncDispose]()
})

/** A desktop on `home` with something in its memory and on its disk, awake or asleep; the next turn is 10. */
async function ready(kind: MoveKind): Promise<void> {
  await home.awake(fenceOf(id, 1, 1))
  await home.run(id, 'echo memory > /run/note; echo disk > /root/note')
  if (kind === 'cold') await home.hibernated(fenceOf(id, 1, 2))
}

const moveOf = (kind: MoveKind, { from = home, to = away, turn = 10 } = {}) =>
  new TestMove({ from, to, desktopId: id, kind, generation: 1, turn })

/** A move that both hosts have begun. */
async function prepared(kind: MoveKind): Promise<TestMove> {
  await ready(kind)
  const move = moveOf(kind)
  await move.begin()
  await move.prepare()
  return move
}

/** Wakes it there if it sleeps, and reads what it holds. */
async function whole(bench: Bench, turn = 50): Promise<string> {
  await bench.awake(fenceOf(id, 2, turn), 'require', 'require')
  return bench.run(id, 'cat /run/note /root/note')
}

const items = async (bench: Bench) => (await bench.ask('host.inventory', { known: [] })).items

/** Nothing of it is left there, and nothing is reported. */
async function expectNothing(bench: Bench): Promise<void> {
  expect(await items(bench)).toEqual([])
  expect(await bench.driver.hasDisk(id)).toBe(false)
  expect(await bench.driver.domain(id)).toBeUndefined()
  expect(bench.parts.memory.list(id)).toEqual([])
}

describe.each(kinds)('%s', (kind) => {
  beforeEach(() => ready(kind))

  test('it goes there and back, with memory and disk, and leaves nothing behind', async () => {
    const move = moveOf(kind)
    expect(await move.check()).toBeNull()
    expect(await move.whole()).toBe(kind === 'live' ? 'awake' : 'hibernated')
    await expectNothing(home)
    expect((await items(away))[0]).toMatchObject({
      turn: 11,
      domain: kind === 'live' ? 'running' : 'absent',
      disk: true,
    })
    expect((await items(away))[0]).not.toHaveProperty('move')
    await moveOf(kind, { from: away, to: home, turn: 20 }).whole()
    await expectNothing(away)
    expect(await whole(home)).toBe('memory\ndisk')
  })

  test.runIf(kind === 'live')('its clock is right after the pause, there and where it goes back', async () => {
    const pauseMs = 1_100
    const undone = moveOf(kind)
    await undone.across()
    await sleep(pauseMs)
    await undone.back()
    await until(async () => (await home.clockError(id)) === 0)
    const move = moveOf(kind, { turn: 20 })
    await move.across()
    await sleep(pauseMs)
    await move.settle()
    await until(async () => (await away.clockError(id)) === 0)
  })

  test('each step may be repeated', async () => {
    const move = moveOf(kind)
    for (const step of ['begin', 'prepare', 'send', 'arrive'] as const) {
      await move[step]()
      await move[step]()
    }
    expect(await move.settle()).toBe(await move.settle())
    await move.release()
    await move.release()
    await expectNothing(home)
    expect(await whole(away)).toBe('memory\ndisk')
  })

  test.each([0, 1, 2, 3, 4])('after %i steps it can go back, and is as before', async (steps) => {
    const move = moveOf(kind)
    for (const step of (['begin', 'prepare', 'send', 'arrive'] as const).slice(0, steps)) await move[step]()
    expect(await move.back()).toBe(kind === 'live' ? 'awake' : 'hibernated')
    expect(await move.back()).toBe(kind === 'live' ? 'awake' : 'hibernated')
    await expectNothing(away)
    await expect(move.prepare()).rejects.toMatchObject({ code: 'superseded' })
    if (kind === 'live') expect(await home.run(id, 'cat /run/note')).toBe('memory')
    expect(await whole(home)).toBe('memory\ndisk')
  })

  const steps = ['begin', 'prepare', 'send', 'arrive'] as const
  const deaths = steps.flatMap((step) => (['old', 'new'] as const).map((host) => ({ step, host })))
  test.each(deaths)('the agent of the $host host dies after $step: it goes back', async ({ step, host }) => {
    const move = moveOf(kind)
    for (const each of steps) {
      await move[each]()
      if (each === step) break
    }
    const bench = host === 'old' ? home : away
    await bench.crash()
    // What has only moved in parts runs nowhere by itself, and is not changed by a check of everything.
    await bench.parts.watch.checkAll()
    const { move: known } = (await items(bench))[0] ?? {}
    if (host === 'old' || step !== 'begin') expect(known).toMatchObject({ moveId: move.fence.operationId, kind })
    expect(await move.back()).toBe(kind === 'live' ? 'awake' : 'hibernated')
    await expectNothing(away)
    expect(await whole(home)).toBe('memory\ndisk')
  })

  test.each(['old', 'new', 'both'])(
    'the agent of the %s host dies before the decision: it goes on all the same',
    async (host) => {
      const move = moveOf(kind)
      await move.across()
      if (host !== 'new') await home.crash()
      if (host !== 'old') await away.crash()
      expect(await move.settle()).toBe(kind === 'live' ? 'awake' : 'hibernated')
      await move.release()
      await expectNothing(home)
      expect(await whole(away)).toBe('memory\ndisk')
    },
  )

  const points = [
    ['move.begin.after-note', 'begin'],
    ['move.prepare.after-note', 'prepare'],
    ['move.send.after-send', 'send'],
    ['move.arrive.before-note', 'arrive'],
    ['move.keep.before-resume', 'keep'],
    ['move.after-remove', 'abandon'],
  ] as const
  test.each(points)('an agent that dies at %s leaves what can be undone', async (point, last) => {
    const move = moveOf(kind)
    const way = ['begin', 'prepare', 'send', 'arrive', ...(last === 'keep' ? ['abandon'] : []), last] as const
    for (const step of way.slice(0, way.indexOf(last))) await move[step as (typeof steps)[number]]()
    const isOld = ['begin', 'send', 'keep'].includes(last)
    await (isOld ? home : away).crashAt(point, () => move[last]())
    expect(await move.back()).toBe(kind === 'live' ? 'awake' : 'hibernated')
    await expectNothing(away)
    expect(await whole(home)).toBe('memory\ndisk')
  })

  test.each([
    'move.settle.before-resume',
    'move.settle.after-resume',
    'move.release.before-remove',
    'move.after-remove',
  ])('an agent that dies at %s goes on forward', async (point) => {
    const move = moveOf(kind)
    await move.across()
    if (point.startsWith('move.settle')) {
      if (kind === 'live') await away.crashAt(point, () => move.settle())
      expect(await move.settle()).toBe(kind === 'live' ? 'awake' : 'hibernated')
      await move.release()
    } else {
      await move.settle()
      await home.crashAt(point, () => move.release())
      await home.parts.watch.checkAll()
      await move.release()
    }
    await expectNothing(home)
    expect(await whole(away)).toBe('memory\ndisk')
  })

  test('while it moves, nothing else is done to it but a destroy', async () => {
    const move = moveOf(kind)
    await move.begin()
    await expect(home.hibernated(fenceOf(id, 1, 30))).rejects.toMatchObject({ detail: expect.stringMatching(/moving/) })
    await move.prepare()
    await expect(away.awake(fenceOf(id, 1, 30))).rejects.toMatchObject({ detail: expect.stringMatching(/moving/) })
    await home.destroyed(fenceOf(id, 1, 30))
    await move.abandon()
    await expectNothing(home)
    await expectNothing(away)
  })

  test('a wrong key moves nothing, and the right one still does', async () => {
    const move = moveOf(kind)
    await move.begin()
    await move.prepare()
    await expect(move.send('A'.repeat(43))).rejects.toMatchObject({ code: 'hypervisor_failed' })
    expect(await move.back()).toBe(kind === 'live' ? 'awake' : 'hibernated')
    expect(await whole(home)).toBe('memory\ndisk')
  })

  test('an undo and a step of an earlier turn come too late after the decision', async () => {
    const move = moveOf(kind)
    await move.across()
    await move.settle()
    await move.release()
    await expect(move.abandon()).rejects.toMatchObject({ code: 'stale_turn' })
    await expect(move.keep()).rejects.toMatchObject({ code: 'stale_turn' })
    expect(await whole(away)).toBe('memory\ndisk')
  })

  test('a host that has its disk already, or that accepts no moves, takes nothing', async () => {
    await away.driver.makeDisk(id, moveOf(kind).spec)
    const move = moveOf(kind)
    await move.begin()
    await expect(move.prepare()).rejects.toMatchObject({ detail: expect.stringMatching(/older part/) })
    expect(await move.keep()).toBe(kind === 'live' ? 'awake' : 'hibernated')
    away.moves = { listen: undefined }
    await away.crash()
    expect(await moveOf(kind, { turn: 20 }).check()).toMatch(/DORMOUSE_AGENT_MOVE_ADDRESS/)
  })
})

test('a guest whose memory did not arrive runs on by itself', async () => {
  const move = await prepared('live')
  const release = home.driver.faults.hang('sendMove')
  const sending = move.send().catch((error) => error)
  await until(() => home.driver.faults.counts.sendMove)
  away.parts.listener.close()
  expect(await sending).toMatchObject({ code: 'hypervisor_failed' })
  release()
  expect(await home.run(id, 'cat /run/note')).toBe('memory')
  expect(await move.back()).toBe('awake')
})

test('an undo ends a step that hangs', async () => {
  const move = await prepared('live')
  home.driver.faults.hang('sendMove')
  const sending = move.send().catch((error) => error)
  await until(() => home.driver.faults.counts.sendMove)
  expect(await move.keep()).toBe('awake')
  expect(await sending).toMatchObject({ code: 'superseded' })
  await move.abandon()
  expect(await home.run(id, 'cat /run/note')).toBe('memory')
})

test('an undo ends an arrival that hangs', async () => {
  const move = await prepared('live')
  await move.send()
  away.driver.faults.hang('finishMove')
  const arriving = move.arrive().catch((error) => error)
  await until(() => away.driver.faults.counts.finishMove)
  expect(await move.back()).toBe('awake')
  expect(await arriving).toMatchObject({ code: 'superseded' })
  expect(await home.run(id, 'cat /run/note')).toBe('memory')
})

test('an arrival at which the hypervisor does not answer fails for good when it is tried again, and can be undone', async () => {
  const move = await prepared('live')
  await move.send()
  away.driver.faults.failNext('finishMove', 1, 'host_unreachable')
  await expect(move.arrive()).rejects.toMatchObject({ code: 'host_unreachable' })
  await expect(move.arrive()).rejects.toMatchObject({ code: 'hypervisor_failed' })
  expect(await move.back()).toBe('awake')
  expect(await home.run(id, 'cat /run/note')).toBe('memory')
})

test('a guest that ends while it is paused for the move is stopped on the new host', async () => {
  await ready('live')
  const move = moveOf('live')
  await move.across()
  away.driver.die(id)
  expect(await move.settle()).toBe('stopped')
  await move.release()
  expect(await away.awake(fenceOf(id, 2, 50))).toMatchObject({ resumedFrom: 'disk' })
})

test('a copy that was cut goes on where it was, also over a file that a power cut has spoiled', async () => {
  await ready('cold')
  const [image] = home.parts.memory.list(id)
  const move = moveOf('cold')
  await move.begin()
  await move.prepare()
  await move.send()
  // As if neither agent had got a command: the new host has a damaged part of the memory, and the agents begin again.
  const partial = away.parts.memory.arrivingPath(id)
  truncateSync(partial, 40)
  writeFileSync(partial, 'spoiled', { flag: 'r+' })
  await home.crash()
  await away.crash()
  await move.begin()
  await move.prepare()
  await move.send()
  await move.arrive()
  expect(await move.settle()).toBe('hibernated')
  await move.release()
  expect(away.parts.memory.list(id)[0]!.bytes).toBe(image!.bytes)
  expect(readdirSync(join(away.memoryFolder, id))).toHaveLength(2)
  expect(await whole(away)).toBe('memory\ndisk')
})

test('a copy that is cut ends no agent, and can be undone', async () => {
  const move = await prepared('cold')
  // The old host cannot read it any more, in the middle of the copy.
  const [image] = home.parts.memory.list(id)
  truncateSync(image!.path, 4)
  const unhandled: unknown[] = []
  const note = (error: unknown) => unhandled.push(error)
  process.on('unhandledRejection', note)
  await expect(move.send()).rejects.toMatchObject({ code: 'hypervisor_failed' })
  await expect(move.arrive()).rejects.toBeDefined()
  await move.back()
  process.off('unhandledRejection', note)
  expect(unhandled).toEqual([])
  await expectNothing(away)
})

test('a desktop without a saved memory moves with its disk alone', async () => {
  await ready('live')
  home.driver.die(id)
  expect(await moveOf('cold').whole()).toBe('stopped')
  expect(await away.awake(fenceOf(id, 2, 50))).toMatchObject({ resumedFrom: 'disk' })
  expect(await away.run(id, 'cat /root/note')).toBe('disk')
})

test('an image that the other host lacks, or a full disk there, is known before anything is copied', async () => {
  await ready('cold')
  const move = moveOf('cold')
  await move.check()
  move.traits!.imageDigest = 'another'
  const request = { spec: move.spec, traits: move.traits!, mayRelay: false }
  expect((await away.ask('move.check', request)).misfit).toMatch(/image/)
  const image = { name: 'mini', version: '1', digest: 'a'.repeat(64), source: 'http://images/', bytes: 1 }
  expect(await away.ask('move.check', { ...request, image })).toEqual({ misfit: null, fetches: true })
  await move.begin()
  away.driver.faults.diskFull = true
  await expect(move.prepare()).rejects.toMatchObject({ code: 'host_disk_full' })
  expect(await move.keep()).toBe('hibernated')
})

test('files that are larger than the desktop may be are refused before anything is made for them', async () => {
  await ready('cold')
  const { spec, fence } = moveOf('cold')
  const key = 'A'.repeat(43)
  const prepare = (handoff: object) =>
    away.ask('move.prepare', { fence, kind: 'cold', spec, imageDigest: '', key, handoff: JSON.stringify(handoff) })
  const huge = { diskBytes: 2 ** 50, ready: false, furnished: true, memory: null }
  await expect(prepare(huge)).rejects.toMatchObject({ detail: expect.stringMatching(/larger/) })
  expect((await items(away))[0]).not.toHaveProperty('move')
  expect(await away.driver.hasDisk(id)).toBe(false)
})

test('a removal of a destroyed desktop removes it in the middle of a move, and only on that host', async () => {
  await ready('live')
  const move = moveOf('live')
  await move.across()
  for (const bench of [home, away]) {
    const { generation, turn } = bench.parts.journal.read(id)!
    // No order removes what a host has of a desktop that is on another host, as it may be the only copy.
    for (const order of ['stop', 'suspend'] as const)
      await bench.ask('host.rejoin', { epoch: 1, orders: [{ desktopId: id, seen: { generation, turn }, order }] })
    expect(await bench.driver.hasDisk(id)).toBe(true)
  }
  expect(await move.back()).toBe('awake')
  expect(await home.run(id, 'cat /run/note')).toBe('memory')
  const remove = { desktopId: id, seen: { generation: 1, turn: 10 }, order: 'remove' } as const
  await home.ask('host.rejoin', { epoch: 1, orders: [{ ...remove, seen: { generation: 1, turn: 9 } }] })
  expect(await home.driver.hasDisk(id)).toBe(true)
  await home.ask('host.rejoin', { epoch: 1, orders: [remove] })
  await expectNothing(home)
})

test('a released host keeps a guest that runs there without having moved', async () => {
  await ready('live')
  const release = away.ask('move.release', { fence: fenceOf(id, 1, 40), handoff: null })
  expect(await release).toEqual({})
  const wrong = home.ask('move.release', { fence: fenceOf(id, 1, 40), handoff: null })
  await expect(wrong).rejects.toMatchObject({ detail: expect.stringMatching(/has not left/) })
  expect(await home.run(id, 'cat /run/note')).toBe('memory')
})
