// Guarantee: whatever part is killed, and whenever, every desktop ends in a true state, every operation settles, and
// nothing is left behind.
import { readFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import type { Desktop } from '@dormouse/client'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startPrivateLibvirtd } from '../../scripts/ground/libvirtd.ts'
import { pids, readLive } from '../../scripts/ground/processes.ts'
import { Instance, until } from './instance.ts'
import { expectKept, guest, leaveWitness } from './witness.ts'

let instance: Instance
beforeAll(async () => {
  instance = await Instance.start()
})
afterAll(async () => {
  await instance?.[Symbol.asyncDispose]()
})

/** Each part of the house, and how it is killed; whoever keeps it running puts it back. */
const parts: Record<string, () => Promise<void>> = {
  'the agent': () => instance.kill('agent'),
  'the control plane': () => instance.kill('control plane'),
  libvirtd: async () => (await libvirt()).killDaemon('SIGKILL'),
  Postgres: async () => {
    const pid = Number(readFileSync(join(instance.dataDir, 'postgres', 'postmaster.pid'), 'utf8').split('\n')[0])
    process.kill(pid, 'SIGINT')
    await until(() => !isRunning(pid), 10_000)
  },
}

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
  until(async () => {
    const { exitCode } = await desktop.commands.run('true').catch(() => ({ exitCode: 1 }))
    return exitCode === 0
  }, 60_000)

test.each(Object.keys(parts))(
  '%s is killed while desktops are awake: they run on, and can be used and put to sleep',
  async (part) => {
    const desktop = await instance.create()
    await desktop.wake()
    const before = await leaveWitness(desktop, 8)
    await parts[part]!()
    await awakeAgain(desktop)
    expect((await desktop.refresh()).state).toBe('awake')
    await expectKept(desktop, before)
    await desktop.hibernate()
    await desktop.wake()
    await expectKept(desktop, before)
    await desktop.destroy()
  },
)

test.each(Object.keys(parts))(
  '%s is killed while one desktop falls asleep and another wakes: both settle, and nothing is lost',
  async (part) => {
    const [sleepy, waking] = await Promise.all([instance.create(), instance.create()])
    await Promise.all([sleepy.wake(), waking.wake()])
    const before = await Promise.all([leaveWitness(sleepy, 8), leaveWitness(waking, 8)])
    await waking.hibernate()
    const outcomes = Promise.allSettled([sleepy.hibernate(), waking.wake()])
    await parts[part]!()
    await outcomes
    for (const [i, desktop] of [sleepy, waking].entries()) {
      const { state } = await desktop.refresh()
      expect(['awake', 'hibernated']).toContain(state)
      if (state === 'hibernated') expect((await desktop.wake()).result?.resumedFrom).toBe('memory')
      await awakeAgain(desktop)
      await expectKept(desktop, before[i]!)
    }
    await Promise.all([sleepy.destroy(), waking.destroy()])
    const names = await leftovers()
    expect(names.filter((name) => name.includes(sleepy.id) || name.includes(waking.id))).toEqual([])
  },
)

test('a desktop whose QEMU is killed is stopped, and boots from its disk', async () => {
  const desktop = await instance.create()
  await desktop.wake()
  await guest(desktop, 'echo kept > /root/kept; sync')
  for (const pid of qemusOf(desktop)) process.kill(pid, 'SIGKILL')
  await until(async () => (await desktop.refresh()).state === 'stopped', 20_000)
  expect((await desktop.wake()).result?.resumedFrom).toBe('disk')
  expect(await guest(desktop, 'cat /root/kept')).toBe('kept\n')
  await desktop.destroy()
})
