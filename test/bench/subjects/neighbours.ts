// What a desktop keeps of its host's disk, processors and network beside others that take all they can, with the shares of
// their tiers and without. Emulated guests on a host with control groups, whose uplink carries 40 Mbit/s.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Desktop } from '@dormouse/client'
import { enableCgroups, removeCgroups } from '../../real/parts/cgroups.ts'
import { Instance } from '../../real/parts/instance.ts'
import { NetworkedHost } from '../../real/parts/networked-host.ts'
import { makeNetworkedImage, networkedDesktop, networkedImagesDir } from '../../real/parts/networked-image.ts'
import { Surroundings } from '../../real/parts/surroundings.ts'
import { type Measured, type Rounds, type Row, rowOf, type Subject } from '../subject.ts'

const size = '1,256,2'
const shares = 'disk=50,iops=2000,network=10'
const settings = {
  DORMOUSE_TIER_SMALL: size,
  DORMOUSE_TIER_DEFAULT: size,
  DORMOUSE_TIER_LARGE: size,
  DORMOUSE_TIER_SMALL_SHARES: `${shares},cpu=100`,
  DORMOUSE_TIER_DEFAULT_SHARES: 'off',
  DORMOUSE_TIER_LARGE_SHARES: `${shares},cpu=400`,
}
const greedyOnes = 2
const measureSecs = 4
/** The others begin before, and end later. */
const leadMs = 2_000
const greedySecs = 9

interface Group {
  neighbour: Desktop
  greedy: Desktop[]
}

/** In a guest: repeats the work for so many seconds, and prints how often it was done. */
const repeated = (work: string, secs: number) =>
  `n=0; end=$(($(date +%s) + ${secs})); while [ $(date +%s) -lt $end ]; do ${work}; n=$((n + 1)); done; echo $n`

const source = '203.0.113.2 9001'
const kinds = {
  disk: {
    what: `disk, beside ${greedyOnes} desktops that write as fast as they can`,
    unit: 'MiB/s',
    count: greedyOnes,
    measure: { work: 'dd if=/dev/zero of=/root/own bs=1M count=8 conv=notrunc,fsync 2>/dev/null', each: 8 },
    greedy: repeated(
      'dd if=/dev/zero of=/root/greedy bs=1M count=64 conv=notrunc,fsync oflag=direct 2>/dev/null',
      greedySecs,
    ),
  },
  cpu: {
    what: `processor, beside ${greedyOnes} desktops of a smaller tier that compute`,
    unit: 'loops/s',
    count: greedyOnes,
    measure: { work: 'i=0; while [ $i -lt 2000 ]; do i=$((i + 1)); done', each: 2_000 },
    greedy: repeated('i=0; while [ $i -lt 2000 ]; do i=$((i + 1)); done', greedySecs),
  },
  network: {
    what: 'network, beside a desktop with 30 downloads',
    unit: 'Mbit/s',
    count: 1,
    measure: undefined,
    greedy: `for n in $(seq 30); do timeout ${greedySecs} nc ${source} </dev/null >/dev/null & done; wait`,
  },
} as const
type Kind = keyof typeof kinds

export const neighbours: Subject = {
  name: 'neighbours',
  what: 'what a desktop keeps of its host beside others that take all they can, with shares and without, as a part of what it has alone',
  hosts: 'real',
  seconds: { fixed: 150, perRound: 90 },
  run: async ({ rounds }) => {
    await makeNetworkedImage()
    using _groups = { [Symbol.dispose]: removeCgroups }
    await using instance = await Instance.start(settings, ['--simulated', '1', '--no-tour'])
    await using networked = await NetworkedHost.start(instance, networkedImagesDir)
    await enableCgroups(networked.libvirtd)
    await layOut(await Surroundings.of(networked))
    const groups = {
      without: await groupOf(instance, 'default', 'default'),
      with: await groupOf(instance, 'large', 'small'),
    }
    const taken = new Map<string, Rounds>()
    for (let round = 0; round < rounds; round++)
      for (const kind of Object.keys(kinds) as Kind[])
        for (const [name, group] of Object.entries(groups)) await measure(taken, `${kind} ${name}`, kind, group)
    // Otherwise the instance would hibernate them when it stops, and their host is gone by then.
    await Promise.all(
      Object.values(groups).flatMap(({ neighbour, greedy }) => [neighbour, ...greedy].map((one) => one.destroy())),
    )
    return (Object.keys(kinds) as Kind[]).flatMap((kind) => [row(taken, kind, 'without'), row(taken, kind, 'with')])
  },
}

function row(taken: Map<string, Rounds>, kind: Kind, how: keyof { with: 1; without: 1 }): Row {
  const { what, unit } = kinds[kind]
  return rowOf(taken.get(`${kind} ${how}`)!, {
    ...{ subject: 'neighbours', name: `${what}, ${how} shares`, unit, better: 'more', of: 'rate' },
    ...{ floor: 'the same desktop alone', ratioKind: 'share' },
    ...(how === 'with' && { goal: { ratio: 0.5 } }),
  })
}

async function measure(
  taken: Map<string, Rounds>,
  key: string,
  kind: Kind,
  { neighbour, greedy }: Group,
): Promise<void> {
  const rounds = taken.get(key) ?? { floor: [], ours: [] }
  taken.set(key, rounds)
  rounds.floor!.push(await rateOf(kind, neighbour))
  const others = greedy.slice(0, kinds[kind].count).map((one) => ran(one, kinds[kind].greedy))
  await sleep(leadMs)
  rounds.ours!.push(await rateOf(kind, neighbour))
  await Promise.all(others)
}

async function rateOf(kind: Kind, desktop: Desktop): Promise<Measured> {
  const { measure } = kinds[kind]
  if (!measure) {
    const bytes = Number(await ran(desktop, `timeout ${measureSecs} nc ${source} </dev/null | wc -c`))
    return { rate: (bytes * 8) / 1e6 / measureSecs }
  }
  const began = performance.now()
  const times = Number(await ran(desktop, repeated(measure.work, measureSecs)))
  return { rate: (times * measure.each * 1_000) / (performance.now() - began) }
}

async function ran(desktop: Desktop, script: string): Promise<string> {
  const { exitCode, stdout, stderr } = await desktop.commands.run(script)
  if (exitCode !== 0) throw new Error(`in a guest: ${stderr || exitCode}`)
  return stdout
}

/** All of them awake. */
async function groupOf(instance: Instance, tier: 'default' | 'large', others: 'default' | 'small'): Promise<Group> {
  const [neighbour, ...greedy] = await Promise.all(
    [tier, ...Array<typeof others>(greedyOnes).fill(others)].map((each) => networkedDesktop(instance, each)),
  )
  return { neighbour: neighbour!, greedy }
}

/** A source of zeros on the internet, behind an uplink of 40 Mbit/s. */
const layOut = (around: Surroundings) =>
  around.exec(
    '/bin/sh',
    '-c',
    `set -e
ip netns exec outside tc qdisc add dev eth0 root handle 1: htb default 1
ip netns exec outside tc class add dev eth0 parent 1: classid 1:1 htb rate 40mbit
ip netns exec outside busybox nc -ll -p 9001 -e dd if=/dev/zero bs=64k >/dev/null 2>&1 </dev/null &`,
  )
