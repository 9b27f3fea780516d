// Hibernate, wake (by restore, and from the warm copy) and destroy of a real guest of 256 MiB, beside the same calls of bare
// libvirt on its twin; hibernate and wake also beside a bare QEMU, and a save beside a copy of its file.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Desktop } from '@dormouse/client'
import { alternate, type Measured, rowOf, type Subject } from '../subject.ts'

/** It has slept for a while then: the digest of its memory is computed, and its image is written. */
const asleepMs = 3_000

const once = { ratio: 1.05 }
const resumed = 'libvirt resume, until the guest answers'
const besideLibvirt = [
  { of: 'hibernate', floor: 'libvirt save', goal: once },
  { of: 'wake', floor: 'libvirt restore, until the guest answers', goal: once },
  { of: 'wake warm', floor: resumed, goal: { figure: 50 } },
  { of: 'wake warm, just hibernated', floorOf: 'wake warm', floor: resumed },
  { of: 'destroy', floor: 'libvirt destroy', goal: once },
]

/** What is below libvirt: the value that a floor's round has, the action that it is compared with, and what it is. */
const below = [
  { floorOf: 'qemu save', of: 'hibernate', floor: 'QEMU’s migration to a file, over QMP' },
  { floorOf: 'cp', of: 'hibernate', floor: '`cp` of the saved memory, synced' },
  { floorOf: 'qemu restore', of: 'wake', floor: 'QEMU -incoming, until the guest answers' },
  { floorOf: 'qemu start', of: 'wake', floor: 'start of that QEMU, until QMP answers' },
]

export const power: Subject = {
  name: 'power',
  what: 'hibernate, wake and destroy of a real guest of 256 MiB, beside bare libvirt, bare QEMU and `cp`',
  hosts: 'real',
  seconds: { fixed: 60, perRound: 15 },
  run: async ({ real, rounds }) => {
    const { instance, desktop, twin, rawQemu } = await real.get()
    const qemu = await rawQemu()
    const ours = async (): Promise<Measured> => {
      const other = await instance.create()
      await other.wake()
      // First, so that the others are measured on a host that runs nothing else.
      const destroy = await timed(() => other.destroy())
      const hibernate = await timed(() => desktop.hibernate())
      const justHibernated = await timed(() => wakes(desktop, 'warm'))
      await desktop.hibernate()
      await sleep(asleepMs)
      const warm = await timed(() => wakes(desktop, 'warm'))
      await desktop.hibernate()
      await instance.dropWarmCopies()
      const wake = await timed(() => wakes(desktop, 'restore'))
      return { destroy, hibernate, wake, 'wake warm': warm, 'wake warm, just hibernated': justHibernated }
    }
    const bare = async (): Promise<Measured> => {
      const [save, cp] = [await qemu.save(), await qemu.copy()]
      const { startMs, allMs } = await qemu.restore()
      return {
        ...{ 'qemu save': save, cp, 'qemu start': startMs, 'qemu restore': allMs },
        hibernate: await twin.save(),
        wake: await twin.restore(),
        'wake warm': await twin.resume(),
        destroy: (await twin.destroyAndBoot()).destroyMs,
      }
    }
    const taken = await alternate(rounds, { floor: bare, ours })
    await qemu.end()
    const row = { subject: 'power', unit: 'ms', better: 'less', ratioKind: 'multiple' } as const
    const besideLess = below.map((each) => rowOf(taken, { ...row, name: `${each.of} beside ${each.floor}`, ...each }))
    return [
      ...besideLibvirt.map((each) => rowOf(taken, { ...row, ...each, name: `${each.of}, 256 MiB` })),
      ...besideLess,
    ]
  },
}

async function wakes(desktop: Desktop, path: 'warm' | 'restore'): Promise<void> {
  const { result } = await desktop.wake()
  if (result?.path !== path) throw new Error(`a wake took another path: ${JSON.stringify(result)}`)
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const began = performance.now()
  await work()
  return performance.now() - began
}
