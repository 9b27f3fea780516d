// The first wake of a real desktop of 256 MiB from a template, beside a boot of the same image by bare libvirt; what each of them
// holds of the host's memory, and how long its first hibernation takes; ten first wakes at once; the end of a warm copy; what 20
// warm copies hold.
import { createAdminClient, type Desktop } from '@dormouse/client'
import { waitFor } from '../../wait-for.ts'
import { availableMiB, ownMiB, qemuOf } from '../cpu.ts'
import type { Real } from '../real.ts'
import { alternate, type Measured, rowOf, type Subject } from '../subject.ts'

const many = 10
const warmOnes = 20

export const firstWakes: Subject = {
  name: 'first-wakes',
  what: 'first wakes of a real desktop of 256 MiB from a template, beside a boot of its image by bare libvirt',
  hosts: 'real',
  seconds: { fixed: 90, perRound: 25 },
  run: async ({ real, rounds }) => {
    const stage = await real.get()
    const { twin } = stage
    await templateMade(stage)
    const floor = async (): Promise<Measured> => {
      const { bootMs } = await twin.destroyAndBoot()
      const memory = twin.memoryMiB()
      const save = await twin.save()
      await twin.restore()
      return { wake: bootMs, memory, save }
    }
    const taken = await alternate(rounds, { floor, ours: () => roundOf(stage) })
    const takenWarm = await alternate(1, { ours: () => warmRoundOf(stage) })
    const row = { subject: 'first-wakes', better: 'less', unit: 'ms' } as const
    const boot = 'a boot by libvirt, until the guest answers'
    const booted = { floor: 'a guest that was booted', ratioKind: 'multiple' } as const
    return [
      rowOf(taken, {
        ...{ ...row, name: 'first wake from a template', of: 'wake', floor: boot },
        ...({ goal: { figure: 350 }, ratioKind: 'multiple' } as const),
      }),
      rowOf(taken, { ...row, name: `${many} first wakes at once, until the last`, of: 'many' }),
      rowOf(taken, { ...row, ...booted, name: 'first hibernation', of: 'save' }),
      rowOf(taken, { ...row, ...booted, name: 'memory of the host', unit: 'MiB', of: 'memory' }),
      rowOf(taken, { ...row, name: 'end of a warm copy', of: 'eviction' }),
      rowOf(takenWarm, { ...row, name: `memory of ${warmOnes} warm desktops`, unit: 'MiB', of: 'held' }),
      rowOf(takenWarm, { ...row, name: `the same, as the host sees it`, unit: 'MiB', of: 'gone' }),
    ]
  },
}

/** The stage's own desktop was booted. */
async function templateMade({ instance: { local } }: Real): Promise<void> {
  const admin = createAdminClient({ baseUrl: local.base_url, operatorKey: local.operator_key })
  const isMade = async () => (await admin.listHosts()).hosts.some(({ templates }) => templates?.length)
  await waitFor('a template', isMade, 120_000)
}

async function roundOf({ instance }: Real): Promise<Measured> {
  const desktop = await instance.create()
  const wake = await timed(() => wakes(desktop))
  const memory = ownMiB(qemuOf(desktop.id))
  const save = await timed(() => desktop.hibernate())
  const eviction = await timed(() => instance.dropWarmCopies())
  await desktop.destroy()
  const others = await Promise.all(Array.from({ length: many }, () => instance.create()))
  const all = await timed(() => Promise.all(others.map(wakes)))
  await Promise.all(others.map((other) => other.destroy()))
  return { wake, memory, save, eviction, many: all }
}

/** Desktops that began with a template and sleep: what their processes hold, and what the host has less available. */
async function warmRoundOf({ instance }: Real): Promise<Measured> {
  await instance.dropWarmCopies()
  const before = availableMiB()
  const desktops = await Promise.all(Array.from({ length: warmOnes }, () => instance.create()))
  for (const desktop of desktops) {
    await wakes(desktop)
    await desktop.hibernate()
  }
  const held = desktops.reduce((sum, { id }) => sum + ownMiB(qemuOf(id)), 0)
  const gone = before - availableMiB()
  await Promise.all(desktops.map((desktop) => desktop.destroy()))
  return { held, gone }
}

async function wakes(desktop: Desktop): Promise<void> {
  const { result } = await desktop.wake()
  if (result?.path !== 'template') throw new Error(`a first wake took another path: ${JSON.stringify(result)}`)
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const began = performance.now()
  await work()
  return performance.now() - began
}
