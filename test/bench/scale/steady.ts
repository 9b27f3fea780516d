// A quiet day: nothing but heartbeats, then reads with 5 % mutations at a fixed rate.
import { setTimeout as sleep } from 'node:timers/promises'
import { residentMiB } from '../cpu.ts'
import { cpuMs } from './operations.ts'
import { paced, type Request } from './paced.ts'
import type { ScaleSubject, Stage } from './size.ts'

const perSecond = 300
const mutationShare = 0.05
/** Longer than the interval of the comparisons with all hosts. */
const longSeconds = 65
/** From this size on, they cost something. */
const manyHosts = 1_000

export const steady: ScaleSubject = {
  name: 'steady',
  what: `${perSecond} requests per second, of which 5 % are wakes and hibernations, and the same time without requests`,
  run: async (stage) => {
    const { service, quick, size } = stage
    const seconds = quick ? 8 : size.hosts >= manyHosts ? longSeconds : 20
    const idle = await coresOver(stage, () => sleep(seconds * 1_000))
    let figures: Awaited<ReturnType<typeof paced>> | undefined
    const next = requestsOn(stage.desktops)
    const busy = await coresOver(stage, async () => {
      figures = await paced(service, { perSecond, seconds, next })
    })
    const { read, mutation } = figures!
    return {
      'idle: control plane, % of a core': idle['control plane']!,
      'idle: Postgres, % of a core': idle.Postgres!,
      'idle: hosts, % of a core': idle.hosts!,
      'busy: control plane, % of a core': busy['control plane']!,
      'busy: Postgres, % of a core': busy.Postgres!,
      'busy: hosts, % of a core': busy.hosts!,
      'busy: generator, % of a core': busy.generator!,
      'read p50, ms': read.p50,
      'read p99, ms': read.p99,
      'read max, ms': read.max,
      'mutation p50, ms': mutation.p50,
      'mutation p99, ms': mutation.p99,
      'reads failed': read.failed,
      'mutations failed': mutation.failed,
      'control plane, MiB': residentMiB(service.controlPlane.pid!),
    }
  },
}

/** Reads of any desktop; each mutation takes the next desktop of a few hundred, wakes it, and hibernates it the next time. */
function requestsOn(desktops: readonly string[]): () => Request {
  const moved = desktops.slice(0, 400)
  const verbs = ['hibernate', 'wake'] as const
  let mutations = 0
  return () => {
    if (Math.random() >= mutationShare) {
      const id = desktops[Math.floor(Math.random() * desktops.length)]
      return { kind: 'read', method: 'GET', path: `/v1/desktops/${id}` }
    }
    const at = mutations++
    const verb = verbs[Math.floor(at / moved.length) % 2]
    return { kind: 'mutation', method: 'POST', path: `/v1/desktops/${moved[at % moved.length]}/${verb}` }
  }
}

/** CPU time of each kind of process during the work, in percent of one core. */
async function coresOver({ service }: Stage, work: () => Promise<unknown>): Promise<Record<string, number>> {
  const [before, began] = [cpuMs(service), performance.now()]
  await work()
  const [after, tookMs] = [cpuMs(service), performance.now() - began]
  return Object.fromEntries(Object.entries(after).map(([name, ms]) => [name, ((ms - before[name]!) / tookMs) * 100]))
}
