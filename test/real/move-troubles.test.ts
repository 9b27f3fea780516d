// Guarantee: whatever dies, hangs or is cut at any step of a move, the desktop is afterwards whole in exactly one place, with its
// memory: on the old host until the decision, on the new one from then on. The other host has nothing of it. Agents are
// processes of their own here, each in the network of its host, and are killed.
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fenceOf } from '@dormouse/agent/testing/bench.ts'
import { TestMove } from '@dormouse/agent/testing/move.ts'
import { type MoveKind, newId } from '@dormouse/contract'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { type CabledHost, cableAddress, cutCable, layCables, mendCable } from '../../scripts/testbed/cables.ts'
import { waitFor } from '../wait-for.ts'
import { AgentProcess } from './parts/agent-process.ts'
import { guestSpec, type Stage, smallMiB } from './parts/agent-stage.ts'
import { succeeds, TwoHosts } from './parts/two-hosts.ts'

/** Slow enough for something to happen in the middle. */
const normalPace = 48
const memoryMiB = 32
const midBytes = 8 * 1024 * 1024
const moreMs = 120_000

interface Side {
  /** Its index in the stage. */
  at: 0 | 1
  agent: AgentProcess
  cabled: CabledHost
}

let hosts: TwoHosts
/** The host on which the desktop is awake before each test. */
let old: Side
let next: Side
beforeAll(async () => {
  hosts = await TwoHosts.start({ memoryMiB })
  await layCables([cabledTo(0), cabledTo(1)])
  ;[old, next] = await Promise.all([inProcess(0), inProcess(1)])
})
afterAll(async () => {
  await Promise.all([old, next].map(async (side) => side?.agent.ensureUp().then(() => side.agent.kill())))
  await Promise.all([hosts?.home.up(), hosts?.away.up()])
  await hosts?.[Symbol.asyncDispose]()
})
// What a failed test has left is told, and not handed on.
afterEach(async ({ task }) => {
  if (task.result?.state !== 'fail') return
  console.error(`the consoles of "${task.name}":\n${hosts.consoles()}`)
  await mendCable(old.cabled, next.cabled)
  for (const { agent } of [old, next]) {
    await agent.ensureUp()
    await agent.ask('desktop.ensureDestroyed', { fence: fenceOf(hosts.id, 1, hosts.nextTurn()) })
  }
  await hosts.boot(old.agent, memoryMiB)
})

const cabledTo = (at: 0 | 1): CabledHost => ({ number: at + 1, pid: hosts.stages[at].libvirtd.pid })

async function inProcess(at: 0 | 1): Promise<Side> {
  const bench = at === 0 ? hosts.home : hosts.away
  await bench.down()
  const agent = agentOn(at, bench.folder)
  await agent.start()
  return { at, agent, cabled: cabledTo(at) }
}

const agentOn = (at: 0 | 1, folder: string, more: { memoryFolder?: string; disksDir?: string } = {}) => {
  const { disksDir, memoryFolder } = more
  const { socketPath, pid } = hosts.stages[at].libvirtd
  return new AgentProcess({
    ...{ folder, socketPath, installationId: hosts.home.installationId, mibPerSec: normalPace },
    ...{ networkOf: pid, listen: { host: cableAddress(at + 1), port: 7443 } },
    ...(memoryFolder && { memoryFolder }),
    ...(disksDir && { settings: { disksDir } }),
  })
}

const kill = async ({ agent }: Side) => {
  await agent.kill()
  await agent.start()
}

const strikes: Record<string, () => Promise<unknown>> = {
  'the old agent is killed': () => kill(old),
  'the new agent is killed': () => kill(next),
  'the old libvirtd is killed': () => hosts.killLibvirtd(old.at),
  'the new libvirtd is killed': () => hosts.killLibvirtd(next.at),
  'the old QEMU is killed': () => hosts.signalQemu(old.at, 'KILL'),
  'the new QEMU is killed': () => hosts.signalQemu(next.at, 'KILL'),
  'the cable is cut': () => cutCable(old.cabled, next.cabled),
  'the new agent hangs': async () => next.agent.freeze(true),
}

/** How those end that do not end by themselves. */
const ends: Record<string, () => unknown> = {
  'the cable is cut': () => mendCable(old.cabled, next.cabled),
  'the new agent hangs': () => next.agent.freeze(false),
}

const steps = ['begin', 'prepare', 'send', 'arrive'] as const
const moments = ['after begin', 'after prepare', 'within send', 'after send', 'after arrive'] as const
type Moment = (typeof moments)[number]

/** Does the steps up to that moment. What is in progress then may fail. */
async function upTo(moment: Moment, move: TestMove): Promise<{ rest: Promise<unknown> }> {
  const [when, last] = moment.split(' ')
  for (const step of steps.slice(0, steps.indexOf(last as 'send'))) await move[step]()
  const rest = move[last as 'send']()
  if (when === 'after') await rest
  const left = rest.catch(() => undefined)
  if (when === 'within') await waitFor(async () => (await old.agent.carriedBytes(hosts.id)) > midBytes, moreMs)
  return { rest: left }
}

/** When each strikes before the decision. A sleeping desktop has no QEMU, and libvirtd has no part in its copy. */
const back: Record<MoveKind, [strike: string, at: readonly Moment[]][]> = {
  live: [
    ['the old agent is killed', moments],
    ['the new agent is killed', moments],
    ['the old libvirtd is killed', moments],
    ['the new libvirtd is killed', moments.slice(1)],
    ['the new QEMU is killed', moments.slice(1)],
    ['the cable is cut', ['after begin', 'within send']],
    ['the new agent hangs', ['within send']],
  ],
  cold: [
    ['the old agent is killed', moments],
    ['the new agent is killed', moments],
    ['the old libvirtd is killed', ['after arrive']],
    ['the new libvirtd is killed', ['after arrive']],
    ['the cable is cut', ['within send']],
    ['the new agent hangs', ['within send']],
  ],
}

const forward: Record<MoveKind, string[]> = {
  live: [
    'the old agent is killed',
    'the new agent is killed',
    'the old libvirtd is killed',
    'the new libvirtd is killed',
    'the old QEMU is killed',
    'the cable is cut',
  ],
  cold: ['the old agent is killed', 'the new agent is killed', 'the new libvirtd is killed'],
}

const eventually = async <T>(ask: () => Promise<T>, expected: T): Promise<void> => {
  let last: unknown
  const isThere = async () => {
    last = await ask().catch((error: unknown) => error)
    return last === expected
  }
  await waitFor(isThere, moreMs).catch((error: Error) => {
    throw new Error(`${error.message}; the last answer was ${last}`)
  })
}

/** The desktop is the other host's: the next test begins there. */
const swap = () => {
  ;[old, next] = [next, old]
}

describe.each<MoveKind>(['live', 'cold'])('%s', (kind) => {
  const asleep = () => (kind === 'cold' ? hosts.hibernate(old.agent) : undefined)
  const state = kind === 'live' ? 'awake' : 'hibernated'

  /** The desktop is whole on the host that it belongs to now, and on no other. */
  async function expectWhole(): Promise<void> {
    if (kind === 'cold') await hosts.wake(old.agent)
    await hosts.expectOn(old.agent, next.agent)
  }

  test.each(back[kind].flatMap(([strike, at]) => at.map((moment) => ({ strike, moment }))))(
    'before the decision, $strike $moment: it goes back',
    async ({ strike, moment }) => {
      await asleep()
      const move = hosts.move(kind, old.agent, next.agent)
      const { rest } = await upTo(moment, move)
      await strikes[strike]!()
      await rest
      await ends[strike]?.()
      await eventually(() => move.abandon(), undefined)
      await eventually(() => move.keep(), state)
      await expectWhole()
    },
  )

  test.each(forward[kind].flatMap((strike) => (['settle', 'release'] as const).map((step) => ({ strike, step }))))(
    'after the decision, $strike before "$step": it goes on there',
    async ({ strike, step }) => {
      await asleep()
      const move = hosts.move(kind, old.agent, next.agent)
      await move.across()
      if (step === 'release') expect(await move.settle()).toBe(state)
      await strikes[strike]!()
      await eventually(() => move.settle(), state)
      await eventually(() => move.release(), undefined)
      await ends[strike]?.()
      swap()
      await expectWhole()
    },
  )
})

test('a slow transfer only delays the move', async () => {
  await old.agent.pace(8)
  await hosts.move('live', old.agent, next.agent).whole()
  await old.agent.pace(normalPace)
  swap()
  await hosts.expectOn(old.agent, next.agent)
})

test('a copy whose new agent is killed in the middle goes on where it was', async () => {
  await hosts.hibernate(old.agent)
  const move = hosts.move('cold', old.agent, next.agent)
  const { rest } = await upTo('within send', move)
  await kill(next)
  await rest
  await move.prepare()
  await move.send()
  const { diskBytes, memoryBytes } = move.traits!
  expect(await old.agent.carriedBytes(hosts.id)).toBeLessThan(diskBytes + memoryBytes - midBytes / 2)
  await move.arrive()
  await move.settle()
  await move.release()
  swap()
  await hosts.wake(old.agent)
  await hosts.expectOn(old.agent, next.agent)
})

test('a new QEMU that hangs only delays the move', async () => {
  const move = hosts.move('live', old.agent, next.agent)
  const { rest } = await upTo('within send', move)
  await hosts.signalQemu(next.at, 'STOP')
  const carried = await old.agent.carriedBytes(hosts.id)
  await waitFor(async () => (await old.agent.carriedBytes(hosts.id)) - carried < midBytes)
  await hosts.signalQemu(next.at, 'CONT')
  await rest
  await move.arrive()
  expect(await move.settle()).toBe('awake')
  await move.release()
  swap()
  await hosts.expectOn(old.agent, next.agent)
})

test('three move at once', async () => {
  const others = [newId(), newId()]
  const source = { memory: 'allow', disk: 'make' } as const
  for (const id of others)
    await old.agent.ask('desktop.ensureAwake', { fence: fenceOf(id, 1, 1), spec: guestSpec, source })
  const [from, to, turn] = [old.agent, next.agent, hosts.nextTurn()]
  const moves = [hosts.id, ...others].map(
    (desktopId) => new TestMove({ from, to, desktopId, kind: 'live', generation: 1, turn, spec: guestSpec }),
  )
  expect(await Promise.all(moves.map((move) => move.whole()))).toEqual(['awake', 'awake', 'awake'])
  for (const id of others) {
    await waitFor(() => succeeds(to.run(id, 'true')), moreMs)
    await to.ask('desktop.ensureDestroyed', { fence: fenceOf(id, 1, hosts.nextTurn()) })
  }
  swap()
  await hosts.expectOn(old.agent, next.agent)
})

describe('a new host whose disk fills up', () => {
  /** An agent in place of the new one, which has its disks there. A host has one pool of an installation's disks. */
  async function withSmallDisk(
    kind: MoveKind,
    full: string,
    act: (small: AgentProcess) => Promise<void>,
  ): Promise<void> {
    const stage: Stage = hosts.stages[next.at]
    const folder = join(stage.libvirtd.shortDir, `small-${kind}`)
    const small = agentOn(next.at, folder, { disksDir: join(full, 'disks'), memoryFolder: join(full, 'memory') })
    await next.agent.kill()
    await stage.undefinePool(hosts.home)
    try {
      await small.start()
      await act(small)
    } finally {
      await small.kill()
      await stage.undefinePool(hosts.home)
      await next.agent.start()
    }
  }

  test.each<MoveKind>(['live', 'cold'])('fails a %s move by that code, and it stays', async (kind) => {
    const stage: Stage = hosts.stages[next.at]
    const full = kind === 'live' ? stage.smallFolder : stage.otherSmallFolder
    await withSmallDisk(kind, full, async (small) => {
      if (kind === 'cold') await hosts.hibernate(old.agent)
      const move = hosts.move(kind, old.agent, small)
      expect(await move.check()).toBeNull()
      await move.begin()
      await move.prepare()
      const fill = join(full, 'fill')
      expect(() => writeFileSync(fill, Buffer.alloc((smallMiB + 1) * 1024 * 1024, 1))).toThrow(/ENOSPC/)
      await expect(move.send()).rejects.toMatchObject({ code: 'host_disk_full' })
      rmSync(fill)
      await move.back()
      if (kind === 'cold') await hosts.wake(old.agent)
      await hosts.expectNothingOn(small)
    })
    await hosts.expectOn(old.agent, next.agent)
  })
})

test.each<Moment>(['after begin', 'within send', 'after arrive'])(
  'an old QEMU that is killed %s is a crash: the desktop is stopped there, with its disk',
  async (moment) => {
    const move = hosts.move('live', old.agent, next.agent)
    const { rest } = await upTo(moment, move)
    await strikes['the old QEMU is killed']!()
    await rest
    await move.abandon()
    // libvirt notices it a moment later.
    await eventually(() => move.keep(), 'stopped')
    await hosts.expectNothingOn(next.agent)
    await hosts.reboot(old.agent)
  },
)

test('a new QEMU that is killed after the decision is a crash: the desktop is stopped there, with its disk', async () => {
  const move = hosts.move('live', old.agent, next.agent)
  await move.across()
  await strikes['the new QEMU is killed']!()
  await eventually(() => move.settle(), 'stopped')
  await move.release()
  swap()
  await hosts.expectNothingOn(next.agent)
  await hosts.reboot(old.agent)
})
