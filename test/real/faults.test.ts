// Guarantee: whatever part is killed, and whenever, every desktop ends in a true state, every operation settles, and
// nothing is left behind.
import { readFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import type { Desktop } from '@dormouse/client'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startPrivateLibvirtd } from '../../scripts/testbed/libvirtd.ts'
import { pids, readLive } from '../../scripts/testbed/processes.ts'
import { requireQemu } from '../../scripts/testbed/system-libvirtd.ts'
import { waitFor } from '../wait-for.ts'
import { HandedOn } from './parts/handed-on.ts'
import { Instance } from './parts/instance.ts'
import { expectKept, guest, leaveWitness, type Seen } from './parts/witness.ts'

const long = process.env.DORMOUSE_TEST_LONG === '1'

let instance: Instance
beforeAll(async () => {
  instance = await Instance.start()
})
afterAll(async () => {
  await instance?.[Symbol.asyncDispose]()
})

/** Each part of the stack, and how it is killed; whoever keeps it running has put it back when this is over. */
const parts: Record<string, () => Promise<void>> = {
  'the agent': () => instance.kill('agent'),
  'the control plane': async () => {
    await instance.kill('control plane')
    await serves()
  },
  libvirtd: async () => {
    const { killDaemon, socketPath } = await libvirt()
    await killDaemon('SIGKILL')
    await waitFor(() => works(requireQemu(socketPath)))
  },
  Postgres: async () => {
    const pid = Number(readFileSync(join(instance.dataDir, 'postgres', 'postmaster.pid'), 'utf8').split('\n')[0])
    process.kill(pid, 'SIGINT')
    await waitFor(() => !isRunning(pid))
    await serves()
  },
}

const works = (asked: Promise<unknown>): Promise<boolean> =>
  asked.then(
    () => true,
    () => false,
  )
/** A part takes longer to come back on a busy machine than a client is patient. */
const serves = () => waitFor(() => works(instance.client.listDesktops()))

/** The instance's own libvirt, taken hold of from outside. */
const libvirt = () =>
  startPrivateLibvirtd({
    dir: instance.dataDir,
    name: hostname(),
    hostUuid: readFileSync(join(instance.dataDir, 'host-uuid'), 'utf8').trim(),
    say: () => undefined,
  })

const isRunning = (pid: number): boolean => {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

/** Names of what is on the host: domains, disks, saved memories. */
async function leftovers(): Promise<string[]> {
  const found = await (await libvirt()).exec(
    '/bin/sh',
    '-c',
    `cd ${instance.dataDir}; virsh -q -c qemu:///system list --all --name; ls agent/disks agent/memory`,
  )
  return found.split('\n').filter(Boolean)
}

/** QEMU's command line names the desktop; its process is seen from outside, too. */
const qemusOf = ({ id }: Desktop) =>
  pids().filter((pid) => readLive(() => readFileSync(`/proc/${pid}/cmdline`, 'utf8'))?.match(`qemu.*uuid\0${id}`))

const awakeAgain = (desktop: Desktop) =>
  waitFor(async () => {
    const { exitCode } = await desktop.commands.run('true').catch(() => ({ exitCode: 1 }))
    return exitCode === 0
  })

/** What it is once nothing is under way with it. */
const lasting = (desktop: Desktop) =>
  waitFor(async () => {
    const { state } = await desktop.refresh()
    return state !== 'waking' && state !== 'hibernating' && state
  })

interface Kept {
  desktop: Desktop
  before: Seen
}

/** Two desktops that are awake, with what they must keep. */
const pairs = new HandedOn<Kept[]>(() => Promise.all([wakeNew(), wakeNew()]))

async function wakeNew(): Promise<Kept> {
  const desktop = await instance.create()
  await desktop.wake()
  return { desktop, before: await leaveWitness(desktop, 8) }
}

// At length only: otherwise parts are killed below, in the middle of work.
test.runIf(long).each(Object.keys(parts))(
  '%s is killed while desktops are awake: they run on, and can be used and put to sleep',
  async (part) => {
    const kept = await pairs.take()
    await parts[part]!()
    for (const { desktop, before } of kept) {
      await awakeAgain(desktop)
      expect((await desktop.refresh()).state).toBe('awake')
      await expectKept(desktop, before)
    }
    const [{ desktop, before }] = kept as [Kept]
    await desktop.hibernate()
    await desktop.wake()
    await expectKept(desktop, before)
    pairs.giveBack(kept)
  },
)

test.each(long ? Object.keys(parts) : ['the agent', 'libvirtd'])(
  '%s is killed while one desktop falls asleep and another wakes: both settle, and nothing is lost',
  async (part) => {
    const kept = await pairs.take()
    const [sleepy, waking] = kept as [Kept, Kept]
    await waking.desktop.hibernate()
    const outcomes = Promise.allSettled([sleepy.desktop.hibernate(), waking.desktop.wake()])
    await parts[part]!()
    await outcomes
    for (const { desktop, before } of kept) {
      const state = await lasting(desktop)
      expect(['awake', 'hibernated']).toContain(state)
      if (state === 'hibernated') expect((await desktop.wake()).result?.resumedFrom).toBe('memory')
      await awakeAgain(desktop)
      await expectKept(desktop, before)
    }
    pairs.giveBack(kept)
  },
)

test('a desktop whose QEMU is killed is stopped, and boots from its disk', async () => {
  const kept = await pairs.take()
  const [{ desktop, before }] = kept as [Kept]
  for (const pid of qemusOf(desktop)) process.kill(pid, 'SIGKILL')
  await waitFor(async () => (await desktop.refresh()).state === 'stopped')
  expect((await desktop.wake()).result?.resumedFrom).toBe('disk')
  expect(await guest(desktop, 'crc32 /root/file')).toBe(`${before.fileHash}\n`)
  pairs.giveBack(kept)
})

test('after all these faults, a destroy leaves nothing behind', async () => {
  const desktops = (await pairs.take()).map(({ desktop }) => desktop)
  await Promise.all(desktops.map((desktop) => desktop.destroy()))
  const names = await leftovers()
  expect(names.filter((name) => desktops.some(({ id }) => name.includes(id)))).toEqual([])
})
