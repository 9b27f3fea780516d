// Hibernate, wake and destroy of a real guest of 256 MiB, beside the same calls of bare libvirt on its twin.
import { alternate, type Measured, rowOf, type Subject } from '../subject.ts'

const actions = ['hibernate', 'wake', 'destroy'] as const
const floors = {
  hibernate: 'libvirt save',
  wake: 'libvirt restore, until the guest answers',
  destroy: 'libvirt destroy',
}

export const power: Subject = {
  name: 'power',
  what: 'hibernate, wake and destroy of a real guest of 256 MiB, beside bare libvirt on its twin',
  hosts: 'real',
  seconds: { fixed: 60, perRound: 10 },
  run: async ({ real, rounds }) => {
    const { instance, desktop, twin } = await real.get()
    const ours = async (): Promise<Measured> => {
      const other = await instance.create()
      await other.wake()
      // First, so that the others are measured on a host that runs nothing else.
      const destroy = await timed(() => other.destroy())
      return {
        destroy,
        hibernate: await timed(() => desktop.hibernate()),
        wake: await timed(() => desktop.wake()),
      }
    }
    const bare = async (): Promise<Measured> => ({
      hibernate: await twin.save(),
      wake: await twin.restore(),
      destroy: await twin.destroyAndBoot(),
    })
    const taken = await alternate(rounds, { floor: bare, ours })
    const row = { subject: 'power', unit: 'ms', better: 'less', ratioKind: 'multiple', goal: { ratio: 1.05 } } as const
    return actions.map((action) =>
      rowOf(taken, { ...row, name: `${action}, 256 MiB`, of: action, floor: floors[action] }),
    )
  },
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const began = performance.now()
  await work()
  return performance.now() - began
}
