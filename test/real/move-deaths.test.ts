// Guarantee: whatever is killed or cut at whatever step of a move that the control plane conducts, the move settles, the desktop is
// whole on exactly one host, with its memory, and `host_id` names that host. The other one has nothing of it.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type AdminOperationJson, createAdminClient, type Desktop } from '@dormouse/client'
import type { MoveKind } from '@dormouse/contract'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { requireQemu } from '../../scripts/testbed/system-libvirtd.ts'
import { waitFor } from '../wait-for.ts'
import { HandedOn } from './parts/handed-on.ts'
import { Instance } from './parts/instance.ts'
import { type RealHost, realHosts } from './parts/real-hosts.ts'
import { succeeds } from './parts/two-hosts.ts'
import { expectKept, guest, leaveWitness, type Seen } from './parts/witness.ts'

/** `place` does nothing on a host that a death could leave behind. `decide` is one transaction, in which `settle` begins. */
const steps = ['begin', 'send', 'arrive', 'settle', 'release'] as const
type StepName = (typeof steps)[number]
/** Each step takes a moment longer, so that something can strike in it: before `arrive`, since that is short, else after it. */
const pauses = ['begin.after', 'send.after', 'arrive.before', 'decide.after', 'settle.after', 'release.after']
const failpoints = pauses.map((at) => `move.${at}=delay:700`).join()
const env = { DORMOUSE_FAILPOINTS: failpoints, DORMOUSE_AGENT_MOVE_MIBPS: '24', DORMOUSE_HEARTBEAT_SECS: '1' }
const settledMs = 180_000

let instance: Instance
let hosts: RealHost[]
beforeAll(async () => {
  instance = await Instance.start(env, ['--no-tour', '--hosts', '2'])
  hosts = await realHosts(instance)
})
afterAll(async () => {
  await instance?.[Symbol.asyncDispose]()
})
afterEach(async ({ task }) => {
  if (task.result?.state !== 'fail') return
  console.error(`the consoles of "${task.name}":\n${hosts.map(consoleOf).join('\n')}`)
  await hosts[0]!.mendTo(hosts[1]!)
  await last?.destroy().catch((error: unknown) => console.error('what it left:', error))
})

const consoleOf = ({ dir, name }: RealHost) => {
  const file = join(dir, 'agent/consoles', `${last?.id}.log`)
  const text = existsSync(file) ? readFileSync(file, 'utf8') : 'no console'
  return `${name}: ${text.split('\n').slice(-40).join('\n')}`
}

const admin = () => {
  const { base_url: baseUrl, operator_key: operatorKey } = instance.local
  return createAdminClient({ baseUrl, operatorKey })
}

interface Kept {
  desktop: Desktop
  before: Seen
}

let last: Desktop | undefined
/** Awake. */
const kept = new HandedOn<Kept>(async () => {
  const desktop = await instance.create()
  last = desktop
  await desktop.wake()
  return { desktop, before: await leaveWitness(desktop, 16) }
})

interface Ends {
  from: RealHost
  to: RealHost
}

async function killLibvirtd({ libvirtd }: RealHost): Promise<void> {
  await libvirtd.killDaemon('SIGKILL')
  await waitFor(() => succeeds(requireQemu(libvirtd.socketPath)))
}

/** As soon as there is one. */
async function killQemu({ libvirtd }: RealHost): Promise<void> {
  await waitFor(() => succeeds(libvirtd.exec('/bin/sh', '-c', 'kill -9 $(cat /run/libvirt/qemu/dormouse-*.pid)')))
}

const strikes: Record<string, (ends: Ends) => Promise<unknown>> = {
  'the control plane': () => instance.kill('control plane'),
  'the old agent': ({ from }) => instance.kill(from.agent),
  'the new agent': ({ to }) => instance.kill(to.agent),
  'the old libvirtd': ({ from }) => killLibvirtd(from),
  'the new libvirtd': ({ to }) => killLibvirtd(to),
  'the old QEMU': ({ from }) => killQemu(from),
  'the new QEMU': ({ to }) => killQemu(to),
  'the cable': ({ from, to }) => from.cutFrom(to),
}

const operation = (id: string): Promise<AdminOperationJson | undefined> =>
  admin()
    .getOperation(id)
    .catch(() => undefined)

/** Begins a move, lets something strike in that step, and answers the move once it has settled and nothing is deferred. */
async function struckMove({ id }: Desktop, ends: Ends, strike: string, step: StepName): Promise<AdminOperationJson> {
  const move = await admin().moveDesktop(id)
  await waitFor(`the step ${step}`, async () => {
    const { timeline, settled_at } = (await operation(move.id)) ?? { timeline: [], settled_at: null }
    if (settled_at !== null) throw new Error('the move settled before the strike')
    return timeline.at(-1)?.step === step
  })
  await strikes[strike]!(ends)
  const settled = await waitFor(
    'the move to settle',
    async () => {
      const seen = await operation(move.id)
      return seen?.settled_at ? seen : undefined
    },
    settledMs,
  )
  await ends.from.mendTo(ends.to)
  const none = async () => (await admin().listDeferred()).deferred_commands.length === 0
  await waitFor('nothing to be deferred', () => none().catch(() => false), settledMs)
  return settled
}

/** What a host has of any desktop: files below the agent's folder, and domains. */
async function found({ dir, domains }: RealHost, { id }: Desktop): Promise<string[]> {
  const files = readdirSync(join(dir, 'agent'), { recursive: true, encoding: 'utf8' })
  return [...files.filter((path) => path.includes(id.slice(-12))), ...(await domains())]
}

/** On the host that `host_id` names, and with no part on the other. */
async function expectOneHost(desktop: Desktop): Promise<void> {
  const { hostId } = await desktop.refresh()
  const other = hosts.find(({ id }) => id !== hostId)!
  const own = hosts.find(({ id }) => id === hostId)!
  expect(own.desktopsOnDisk()).toEqual([desktop.id])
  await waitFor(async () => (await found(other, desktop)).length === 0).catch(() => undefined)
  expect(await found(other, desktop)).toEqual([])
}

const usable = (desktop: Desktop) => waitFor('the guest to answer', () => succeeds(guest(desktop, 'true')), settledMs)

async function endsOf(desktop: Desktop): Promise<Ends> {
  const { hostId } = await desktop.refresh()
  const [from, to] = hosts.toSorted((one) => (one.id === hostId ? -1 : 1))
  return { from: from!, to: to! }
}

const cases: Record<MoveKind, [strike: string, at: readonly StepName[]][]> = {
  live: [
    ['the control plane', steps],
    ['the old agent', steps],
    ['the new agent', steps],
    ['the old libvirtd', steps],
    ['the new libvirtd', steps],
    ['the cable', ['begin', 'send']],
  ],
  cold: [
    ['the control plane', steps],
    ['the old agent', steps],
    ['the new agent', steps],
    ['the new libvirtd', ['arrive', 'settle']],
    ['the cable', ['send']],
  ],
}

describe.each<MoveKind>(['live', 'cold'])('%s', (kind) => {
  test.each(cases[kind].flatMap(([strike, at]) => at.map((step) => ({ strike, step }))))(
    '$strike is lost in "$step": it is whole in one place',
    async ({ strike, step }) => {
      const { desktop, before } = await kept.take()
      if (kind === 'cold') await desktop.hibernate()
      const { state } = await struckMove(desktop, await endsOf(desktop), strike, step)
      console.info(`${kind}, ${strike}, ${step}: ${state}`)
      if (['settle', 'release'].includes(step)) expect(state).toBe('succeeded')
      expect((await desktop.refresh()).state).toBe(kind === 'live' ? 'awake' : 'hibernated')
      await expectOneHost(desktop)
      if (kind === 'cold') expect((await desktop.wake()).result?.resumedFrom).toBe('memory')
      await usable(desktop)
      kept.giveBack({ desktop, before: await expectKept(desktop, before) })
    },
  )
})

describe('a QEMU', () => {
  const at: [strike: string, step: StepName, state: 'awake' | 'stopped'][] = [
    ['the old QEMU', 'begin', 'stopped'],
    ['the old QEMU', 'send', 'stopped'],
    ['the old QEMU', 'settle', 'awake'],
    ['the new QEMU', 'send', 'awake'],
    ['the new QEMU', 'settle', 'stopped'],
  ]
  test.each(at)('%s that is killed in "%s" leaves it %s in one place, with its disk', async (strike, step, state) => {
    const { desktop, before } = await kept.take()
    await struckMove(desktop, await endsOf(desktop), strike, step)
    await waitFor(async () => (await desktop.refresh()).state === state)
    await expectOneHost(desktop)
    if (state === 'stopped') {
      await desktop.wake()
      expect((await guest(desktop, 'crc32 /root/file')).trim()).toBe(before.fileHash)
      kept.giveBack({ desktop, before: await leaveWitness(desktop, 16) })
    } else {
      await usable(desktop)
      kept.giveBack({ desktop, before: await expectKept(desktop, before) })
    }
  })
})
