// Hosts that lose power and come back together, without their guests: how soon every desktop has its true state, and whether
// all can be woken again.
import { setTimeout as sleep } from 'node:timers/promises'
import { waitFor } from '../../wait-for.ts'
import { counted, cpuMs, failuresSince, inShort, sendAll, settledSince, standing, wakeAll } from './operations.ts'
import type { Figures, ScaleSubject, Stage } from './size.ts'

const hostsMax = 50
const desktopsOfOne = 500
/** How long they are off. Shorter than what makes a host unreachable: the next wakes must find them. */
const offMs = 3_000
const settleMs = 300_000

export const powerCut: ScaleSubject = {
  name: 'cut',
  what: `a power cut of up to ${hostsMax} hosts, at most half of them, while wakes are in flight on them`,
  run: (stage) => cutPower(stage, stage.hosts.slice(0, Math.min(hostsMax, Math.ceil(stage.hosts.length / 2)))),
}

export const oneReturns: ScaleSubject = {
  name: 'return',
  what: `a power cut of one host with ${desktopsOfOne} desktops`,
  run: async (stage) => {
    const { service, fleet, say } = stage
    // It has the most free memory by far, so every new desktop is placed there.
    const [host] = await fleet.add('large', 1, {
      DORMOUSE_AGENT_MEMORY_MIB: '16777216',
      DORMOUSE_AGENT_DISK_GIB: '100000',
    })
    const desktops = await service.create(desktopsOfOne)
    await wakeAll(service, desktops, say)
    say(`  ${desktopsOfOne} desktops are awake on one host`)
    return cutPower(stage, [host!])
  },
}

async function cutPower(stage: Stage, names: string[]): Promise<Figures> {
  const { service, fleet, say } = stage
  const desktops = await awakeOn(stage, names)
  // A tenth of them is asleep and being woken at that moment.
  const waking = desktops.filter((_, at) => at % 10 === 0)
  const counts = await counted(service)
  const slept = await sendAll(service, waking, 'hibernate')
  await settledSince(service, counts, () => slept.accepted, say)
  const before = await standing(service)
  const sleeping = await counted(service)
  const since = new Date()
  const woken = sendAll(service, waking, 'wake')
  await fleet.cut(names)
  await sleep(offMs)
  const cpu = cpuMs(service)
  const began = performance.now()
  await fleet.restore(names)
  const startedMs = performance.now() - began
  const { accepted } = await woken
  const { succeeded, failed } = await settledSince(service, sleeping, () => accepted, say)
  const others = desktops.filter((_, at) => at % 10 !== 0)
  const areTrue = async () => !(await statesOf(stage, others)).awake
  await waitFor('the desktops to have their true state', areTrue, settleMs)
  const settledMs = performance.now() - began
  const used = cpuMs(service)
  const states = await statesOf(stage, desktops)
  say(`  after the power cut: ${JSON.stringify(states)}`)
  if (failed > 0) say(`  failed: ${inShort(await failuresSince(service, since))}`)
  await wakeAll(service, desktops, say)
  const after = await standing(service)
  return {
    hosts: names.length,
    desktops: desktops.length,
    'wakes in flight': accepted,
    'wakes settled well': succeeded,
    'wakes failed': failed,
    'hosts started, ms': startedMs,
    'until every state is true, ms': settledMs,
    'control plane, CPU ms each': (used['control plane']! - cpu['control plane']!) / desktops.length,
    'Postgres, CPU ms each': (used.Postgres! - cpu.Postgres!) / desktops.length,
    'awake again': (await statesOf(stage, desktops)).awake ?? 0,
    'changes of leader': after.epoch - before.epoch,
    alarms: after.alarms - before.alarms,
  }
}

async function awakeOn({ service }: Stage, names: string[]): Promise<string[]> {
  const { rows } = await service.database.query<{ id: string }>(
    `select d.id from desktops d join hosts h on h.id = d.host_id where h.name = any($1) and d.state = 'awake'`,
    [names],
  )
  return rows.map(({ id }) => id)
}

async function statesOf({ service }: Stage, desktops: readonly string[]): Promise<Record<string, number>> {
  const { rows } = await service.database.query<{ state: string; count: number }>(
    'select state, count(*)::int as count from desktops where id = any($1) group by state',
    [desktops],
  )
  return Object.fromEntries(rows.map(({ state, count }) => [state, count]))
}
