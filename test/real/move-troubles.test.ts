// Guarantee: whatever dies or hangs at any step of a move, the desktop is afterwards whole in exactly one place, with its
// memory. Agents are processes of their own here, and are killed. A guest that changes its memory too fast is named so.
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fenceOf } from '@dormouse/agent/testing/bench.ts'
import { TestMove } from '@dormouse/agent/testing/move.ts'
import { type MoveKind, newId } from '@dormouse/contract'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { waitFor } from '../wait-for.ts'
import { AgentProcess } from './parts/agent-process.ts'
import { guestSpec, smallMiB } from './parts/agent-stage.ts'
import { succeeds, TwoHosts } from './parts/two-hosts.ts'

/** Slow enough for something to happen in the middle. */
const normalPace = 48

let hosts: TwoHosts
let old: AgentProcess
let next: AgentProcess
beforeAll(async () => {
  hosts = await TwoHosts.start({ memoryMiB: 32 })
  ;[old, next] = await Promise.all([inProcess(0), inProcess(1)])
})
afterAll(async () => {
  await Promise.all([old?.kill(), next?.kill()])
  await Promise.all([hosts?.home.up(), hosts?.away.up()])
  await hosts?.[Symbol.asyncDispose]()
})

async function inProcess(host: 0 | 1): Promise<AgentProcess> {
  const bench = host === 0 ? hosts.home : hosts.away
  await bench.down()
  const { socketPath } = hosts.stages[host].libvirtd
  const { folder, installationId } = bench
  const agent = new AgentProcess({ folder, installationId, socketPath, mibPerSec: normalPace })
  await agent.start()
  return agent
}

const strikes: Record<string, () => Promise<unknown>> = {
  'the old agent is killed': async () => {
    await old.kill()
    await old.start()
  },
  'the new agent is killed': async () => {
    await next.kill()
    await next.start()
  },
  'the old libvirtd is killed': () => hosts.killLibvirtd(0),
  'the new libvirtd is killed': () => hosts.killLibvirtd(1),
  'the new QEMU is killed': () => hosts.signalQemu(1, 'KILL'),
}

const steps = ['begin', 'prepare', 'send', 'arrive'] as const
const moments = ['after begin', 'after prepare', 'within send', 'after send', 'after arrive'] as const

/** Does the steps up to that moment. What is in progress then may fail. */
async function upTo(moment: Moment, move: TestMove): Promise<{ rest: Promise<unknown> }> {
  const [when, last] = moment.split(' ')
  for (const step of steps.slice(0, steps.indexOf(last as 'send'))) await move[step]()
  const rest = move[last as 'send']().catch(() => undefined)
  if (when === 'after') await rest
  else await waitFor(async () => (await old.carriedBytes(hosts.id)) > 8 * 1024 * 1024, 60_000)
  return { rest }
}

type Moment = (typeof moments)[number]

/** When each strikes. A sleeping desktop has no QEMU, and libvirtd has no part in its copy. */
const cases: Record<MoveKind, [strike: string, at: readonly Moment[]][]> = {
  live: [
    ['the old agent is killed', moments],
    ['the new agent is killed', moments],
    ['the old libvirtd is killed', ['within send', 'after arrive']],
    ['the new libvirtd is killed', ['within send', 'after arrive']],
    ['the new QEMU is killed', ['within send', 'after arrive']],
  ],
  cold: [
    ['the old agent is killed', ['within send', 'after arrive']],
    ['the new agent is killed', ['within send', 'after arrive']],
    ['the new libvirtd is killed', ['after arrive']],
  ],
}

describe.each<MoveKind>(['live', 'cold'])('%s', (kind) => {
  const asleep = () => (kind === 'cold' ? hosts.hibernate(old) : undefined)
  const state = kind === 'live' ? 'awake' : 'hibernated'

  /** Whole on that host, and nowhere else. */
  async function wholeOn(host: AgentProcess): Promise<void> {
    if (kind === 'cold') await hosts.wake(host)
    await hosts.expectOn(host, host === old ? next : old)
  }

  test.each(cases[kind].flatMap(([strike, at]) => at.map((moment) => ({ strike, moment }))))(
    '$strike $moment: it goes back',
    async ({ strike, moment }) => {
      await asleep()
      const moving = hosts.move(kind, old, next)
      const { rest } = await upTo(moment, moving)
      await strikes[strike]!()
      await rest
      await waitFor(() => succeeds(moving.abandon()), 60_000)
      await waitFor(async () => (await moving.keep().catch(() => '')) === state, 60_000)
      await wholeOn(old)
    },
  )

  test.each(cases[kind].map(([strike]) => strike).filter((strike) => !strike.includes('QEMU')))(
    '%s after the decision: it goes on there',
    async (strike) => {
      await asleep()
      const moving = hosts.move(kind, old, next)
      await moving.across()
      await strikes[strike]!()
      await waitFor(async () => (await moving.settle().catch(() => '')) === state, 60_000)
      await waitFor(() => succeeds(moving.release()), 60_000)
      await wholeOn(next)
      expect(await hosts.move('live', next, old).whole()).toBe('awake')
      await hosts.expectOn(old, next)
    },
  )
})

test('a copy whose new agent is killed in the middle goes on where it was', async () => {
  await hosts.hibernate(old)
  const move = hosts.move('cold', old, next)
  const { rest } = await upTo('within send', move)
  await next.kill()
  await rest
  await next.start()
  await move.prepare()
  await move.send()
  const { diskBytes, memoryBytes } = move.traits!
  expect(await old.carriedBytes(hosts.id)).toBeLessThan(diskBytes + memoryBytes - 4 * 1024 * 1024)
  await move.arrive()
  await move.settle()
  await move.release()
  await hosts.wake(next)
  await hosts.move('live', next, old).whole()
  await hosts.expectOn(old, next)
})

test('a new QEMU that stands still only delays the move', async () => {
  const move = hosts.move('live', old, next)
  const { rest } = await upTo('within send', move)
  await hosts.signalQemu(1, 'STOP')
  const carried = await old.carriedBytes(hosts.id)
  await waitFor(async () => (await old.carriedBytes(hosts.id)) === carried)
  await hosts.signalQemu(1, 'CONT')
  await rest
  await move.arrive()
  expect(await move.settle()).toBe('awake')
  await move.release()
  await hosts.expectOn(next, old)
  await hosts.move('live', next, old).whole()
  await hosts.expectOn(old, next)
})

test('several move at once', async () => {
  const others = [newId(), newId()]
  for (const id of others) await wakeOf(id)
  const moves = [hosts.id, ...others].map(
    (desktopId) =>
      new TestMove({ from: old, to: next, desktopId, kind: 'live', generation: 1, turn: 9_000, spec: guestSpec }),
  )
  expect(await Promise.all(moves.map((move) => move.whole()))).toEqual(['awake', 'awake', 'awake'])
  for (const id of others) {
    await waitFor(() => succeeds(next.run(id, 'true')), 60_000)
    await next.ask('desktop.ensureDestroyed', { fence: fenceOf(id, 1, 9_010) })
  }
  for (let turn = 0; turn < 9_010; ) turn = hosts.nextTurn()
  await hosts.expectOn(next, old)
  await hosts.move('live', next, old).whole()
  await hosts.expectOn(old, next)
})

const wakeOf = (id: string) =>
  old.ask('desktop.ensureAwake', {
    fence: fenceOf(id, 1, 1),
    spec: guestSpec,
    source: { memory: 'allow', disk: 'make' },
  })

test('a guest that changes its memory faster than it can be sent is named so, and runs on', async () => {
  const loop = '(while [ -e /run/memory ]; do cat /run/memory >/run/copy; done) >/dev/null 2>&1 </dev/null &'
  await old.run(hosts.id, `${loop} echo $! >/run/writer`)
  const move = hosts.move('live', old, next)
  await move.begin()
  await move.prepare()
  await expect(move.send()).rejects.toMatchObject({ code: 'move_not_converging' })
  await old.run(hosts.id, 'kill $(cat /run/writer); rm /run/copy')
  expect(await move.back()).toBe('awake')
  await hosts.expectOn(old, next)
})

describe('a new host whose disk fills up', () => {
  test.each<MoveKind>(['live', 'cold'])('fails a %s move by that code, and it stays', async (kind) => {
    const [, stage] = hosts.stages
    const folder = kind === 'live' ? stage.smallFolder : stage.otherSmallFolder
    const settings = { disksDir: join(folder, 'disks') }
    const small = await stage.bench(`small-${kind}`, settings, join(folder, 'memory'), hosts.home.installationId)
    if (kind === 'cold') await hosts.hibernate(old)
    const move = hosts.move(kind, old, small)
    expect(await move.check()).toBeNull()
    await move.begin()
    await move.prepare()
    const fill = join(folder, 'fill')
    expect(() => writeFileSync(fill, Buffer.alloc(smallMiB * 1024 * 1024, 1))).toThrow(/ENOSPC/)
    await expect(move.send()).rejects.toMatchObject({ code: 'host_disk_full' })
    rmSync(fill)
    await move.back()
    if (kind === 'cold') await hosts.wake(old)
    await hosts.expectOn(old, next)
    small.house.gate.close()
    await small.driver.close()
  })
})

test('an old QEMU that is killed in the middle is a crash: the desktop is stopped there, with its disk', async () => {
  const move = hosts.move('live', old, next)
  const { rest } = await upTo('within send', move)
  await hosts.signalQemu(0, 'KILL')
  await rest
  await move.abandon()
  expect(await move.keep()).toBe('stopped')
  const source = { memory: 'discard', disk: 'require' } as const
  await old.ask('desktop.ensureAwake', { fence: fenceOf(hosts.id, 2, hosts.nextTurn()), spec: guestSpec, source })
  expect(await old.ask('host.inventory', {})).toMatchObject({ items: [{ domain: 'running' }] })
  expect(await next.ask('host.inventory', {})).toEqual({ items: [] })
})
