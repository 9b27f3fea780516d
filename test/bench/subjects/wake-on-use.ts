// A command on a real desktop that sleeps with a warm copy, which wakes it, beside the same command on the desktop awake.
import { setTimeout as sleep } from 'node:timers/promises'
import { median } from '../statistics.ts'
import { alternate, rowOf, type Subject } from '../subject.ts'

/** It has slept for a while then: the digest of its memory is computed, and its image is written. */
const asleepMs = 3_000
const commandsAwake = 10

export const wakeOnUse: Subject = {
  name: 'wake-on-use',
  what: 'exec of `true` on a desktop that sleeps and wakes for it from its warm copy, beside exec on the desktop awake',
  hosts: 'real',
  seconds: { fixed: 40, perRound: 6 },
  run: async ({ real, rounds }) => {
    const { instance, desktop } = await real.get()
    const { client } = instance
    const command = ['true']
    const awake = async () => {
      const times: number[] = []
      for (let at = 0; at < commandsAwake; at++) times.push(await timed(() => client.exec(desktop.id, { command })))
      return { exec: median(times) }
    }
    const asleep = async () => {
      await desktop.hibernate()
      await sleep(asleepMs)
      const exec = await timed(async () => {
        const { woke } = await client.exec(desktop.id, { command }, { wake: 'allow' })
        if (woke?.path !== 'warm') throw new Error(`the command woke the desktop otherwise: ${JSON.stringify(woke)}`)
      })
      return { exec }
    }
    const taken = await alternate(rounds, { floor: awake, ours: asleep })
    const row = { subject: 'wake-on-use', name: 'exec of true, warm asleep', unit: 'ms', better: 'less' } as const
    return [rowOf(taken, { ...row, of: 'exec', floor: 'exec awake', ratioKind: 'multiple' })]
  },
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const began = performance.now()
  await work()
  return performance.now() - began
}
