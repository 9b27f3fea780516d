// Every desktop falls due at once: how long until all sleep, and what reads take meanwhile.
import { setTimeout as sleep } from 'node:timers/promises'
import { counted, cpuMs, liveOf } from './operations.ts'
import { type Paced, paced } from './paced.ts'
import type { ScaleSubject, Stage } from './size.ts'

const readsPerSecond = 50
const pollMs = 500
/** How long nothing may fall asleep before the rest counts as stuck. */
const patienceMs = 60_000

export const idle: ScaleSubject = {
  name: 'idle',
  what: 'every desktop falls due for hibernation at once, with 50 reads per second meanwhile',
  run: async (stage: Stage) => {
    const { service, desktops } = stage
    const before = await readsOver(stage, () => sleep(10_000))
    const [cpu, began] = [cpuMs(service), performance.now()]
    let left = desktops.length
    const during = await readsOver(stage, async () => {
      await service.database.query('update desktops set idle_timeout_secs = 1, idle_look_at = now()')
      left = await fallenAsleep(stage)
    })
    const tookMs = performance.now() - began
    const used = cpuMs(service)
    await service.database.query('update desktops set idle_timeout_secs = 1800')
    const each = (name: string) => (used[name]! - cpu[name]!) / desktops.length
    return {
      'fell asleep': desktops.length - left,
      'left awake': left,
      'until all sleep, s': tookMs / 1_000,
      'read p50 before, ms': before.p50,
      'read p99 before, ms': before.p99,
      'read p50 meanwhile, ms': during.p50,
      'read p99 meanwhile, ms': during.p99,
      'reads failed': during.failed,
      'control plane, CPU ms each': each('control plane'),
      'Postgres, CPU ms each': each('Postgres'),
      'hosts, CPU ms each': each('hosts'),
    }
  },
}

/** Reads any desktop all the while. */
async function readsOver({ service, desktops }: Stage, work: () => Promise<unknown>): Promise<Paced> {
  let ended = false
  const working = work().finally(() => {
    ended = true
  })
  const next = () => {
    const id = desktops[Math.floor(Math.random() * desktops.length)]
    return { kind: 'read', method: 'GET', path: `/v1/desktops/${id}` } as const
  }
  const all: Paced[] = []
  while (!ended) all.push((await paced(service, { perSecond: readsPerSecond, seconds: 10, next })).read)
  await working
  const worst = (name: 'p50' | 'p99' | 'max') => Math.max(...all.map((one) => one[name]))
  const sum = (name: 'sent' | 'failed') => all.reduce((total, one) => total + one[name], 0)
  return { sent: sum('sent'), failed: sum('failed'), p50: worst('p50'), p99: worst('p99'), max: worst('max') }
}

/** Waits until all sleep, or none falls asleep any more; returns how many are awake. */
async function fallenAsleep({ service, say }: Stage): Promise<number> {
  let [last, changedAt] = [-1, performance.now()]
  for (;;) {
    const { rows } = await service.database.query<{ count: number }>(
      `select count(*)::int as count from desktops where state in ('awake', 'hibernating')`,
    )
    const left = rows[0]!.count
    if (left !== last) [last, changedAt] = [left, performance.now()]
    if (left === 0 || performance.now() - changedAt > patienceMs) return left
    if (left % 100 === 0) say(`  ${left} awake, ${liveOf(await counted(service))} operations in flight`)
    await sleep(pollMs)
  }
}
