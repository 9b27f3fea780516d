// Moves of a real guest of 256 MiB between two real hosts, beside `virsh migrate` of the same guest; and the copy of a
// sleeping one, beside `cp` and `rsync` over SSH.
import { TwoHosts } from '../../real/parts/two-hosts.ts'
import { AgentPair } from '../floors/agent-pair.ts'
import { FileCopies, fileMiB } from '../floors/file-copies.ts'
import { Standstill, VirshMigrate } from '../floors/virsh-migrate.ts'
import { alternate, type Measured, type Row, rowOf, type Subject } from '../subject.ts'

export const moves: Subject = {
  name: 'moves',
  what: 'moves of a real guest of 256 MiB between two hosts on one machine, beside `virsh migrate`, `cp` and `rsync`',
  hosts: 'real',
  seconds: { fixed: 40, perRound: 36 },
  run: async ({ rounds }) => [...(await live(rounds)), ...(await asleep(rounds))],
}

async function live(rounds: number): Promise<Row[]> {
  await using hosts = await TwoHosts.start({ memoryMiB: 64 })
  using standstill = await Standstill.between(hosts)
  await using virsh = await VirshMigrate.between(hosts)
  await using agents = await AgentPair.of(hosts)
  const { home, away } = agents
  const ours = async (): Promise<Measured> => {
    const there = await standstill.of(() => hosts.move('live', home, away).whole())
    return mean(there, await standstill.of(() => hosts.move('live', away, home).whole()))
  }
  const bare = async (options = {}): Promise<Measured> => {
    const there = await standstill.of(await virsh.prepare(1, options))
    const back = await standstill.of(await virsh.prepare(0, options))
    await virsh.tidy()
    return mean(there, back)
  }
  // An emulated guest that runs while it is sent loses memory, so ours is paused.
  const floors = async (): Promise<Measured> => {
    const { ms, standstillMs } = await bare({ paused: true })
    return { ...(await bare()), 'paused ms': ms!, 'paused standstillMs': standstillMs! }
  }
  // Both hosts have all their folders, and the guest's pages are touched.
  await ours()
  const taken = await alternate(rounds, { floor: floors, ours })
  const row = { subject: 'moves', unit: 'ms', better: 'less', ratioKind: 'multiple' } as const
  const floor = '`virsh migrate` over TCP'
  const paused = '`virsh migrate` of the paused guest'
  return [
    rowOf(taken, {
      ...row,
      name: 'live move, from its first step to its last',
      of: 'ms',
      floor,
      goal: { ratio: 1.15 },
    }),
    rowOf(taken, {
      ...row,
      name: 'live move, beside that of a paused guest',
      of: 'ms',
      floorOf: 'paused ms',
      floor: paused,
    }),
    rowOf(taken, { ...row, name: 'pause in a live move', of: 'standstillMs', floor }),
    rowOf(taken, {
      ...row,
      name: 'pause in a live move, beside that of a paused guest',
      of: 'standstillMs',
      floorOf: 'paused standstillMs',
      floor: paused,
    }),
  ]
}

type Move = { ms: number; standstillMs: number }

const mean = (a: Move, b: Move): Measured => {
  return { ms: (a.ms + b.ms) / 2, standstillMs: (a.standstillMs + b.standstillMs) / 2 }
}

async function asleep(rounds: number): Promise<Row[]> {
  await using copies = await FileCopies.start()
  const floor = async () => ({ ...(await copies.cp()), ...(await copies.rsync()) })
  const taken = await alternate(rounds, { floor, ours: () => copies.agents() })
  const rate = { subject: 'moves', unit: 'MiB/s', better: 'more', ratioKind: 'share', of: 'agents rate' } as const
  const cpu = { subject: 'moves', unit: 'CPU s/GiB', better: 'less', ratioKind: 'multiple', of: 'agents cpu' } as const
  const [cp, rsync] = ['`cp`', '`rsync` over SSH']
  return [
    rowOf(taken, { ...rate, name: `copy of ${fileMiB} MiB, synced, beside cp`, floorOf: 'cp rate', floor: cp! }),
    rowOf(taken, {
      ...rate,
      name: `copy of ${fileMiB} MiB, synced, beside rsync`,
      floorOf: 'rsync rate',
      floor: rsync!,
    }),
    rowOf(taken, { ...cpu, name: 'CPU of a copy beside cp', floorOf: 'cp cpu', floor: cp! }),
    rowOf(taken, { ...cpu, name: 'CPU of a copy beside rsync', floorOf: 'rsync cpu', floor: rsync! }),
  ]
}
