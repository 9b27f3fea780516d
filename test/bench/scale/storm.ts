// A wake of every desktop, all sent as fast as the service answers. What counts is what becomes of each of them.
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { residentMiB } from '../cpu.ts'
import type { Service } from '../service.ts'
import { percentile } from '../statistics.ts'
import type { ScaleSubject, Stage } from './size.ts'

const callersMax = 512
const pollMs = 200
/** How long nothing may settle before the rest counts as stuck. */
const patienceMs = 60_000

export const storm: ScaleSubject = {
  name: 'storm',
  what: 'a wake of every desktop, all sent at once by 512 callers, until the last has settled',
  run: async (stage) => {
    const { service, desktops } = stage
    const before = await standing(service)
    const cpu = service.cpuMs()
    const began = performance.now()
    const sending = sendAll(service, desktops)
    const settled = settledOver(stage, began)
    const answers = await sending
    const acceptedMs = performance.now() - began
    const { tookMs, states } = await settled(answers.accepted)
    const after = await standing(service)
    const used = service.cpuMs()
    const accepted = answers.accepted
    const done = states.done ?? 0
    const each = (name: string) => (used[name]! - cpu[name]!) / Math.max(accepted, 1)
    return {
      sent: desktops.length,
      accepted,
      refused: desktops.length - accepted,
      'settled well': done,
      failed: states.failed ?? 0,
      lost: accepted - done - (states.failed ?? 0),
      'accepted per second': (accepted * 1_000) / acceptedMs,
      'settled per second': (done * 1_000) / tookMs,
      'p50 of an answer, ms': percentile(answers.times, 0.5),
      'changes of leader': after.epoch - before.epoch,
      alarms: after.alarms - before.alarms,
      'control plane, CPU ms each': each('control plane'),
      'Postgres, CPU ms each': each('Postgres'),
      'hosts, CPU ms each': each('hosts'),
      'control plane, peak MiB': residentMiB(service.controlPlane.pid!, 'VmHWM'),
    }
  },
}

async function sendAll(service: Service, desktops: readonly string[]) {
  const left = [...desktops]
  const times: number[] = []
  let accepted = 0
  const call = async () => {
    const connection = service.connect()
    for (let id = left.pop(); id; id = left.pop()) {
      const began = performance.now()
      const { status } = await connection.send('POST', `/v1/desktops/${id}/wake`)
      times.push(performance.now() - began)
      if (status < 300) accepted++
    }
    connection.close()
  }
  await Promise.all(Array.from({ length: Math.min(callersMax, desktops.length) }, call))
  return { accepted, times }
}

/** Watches the table of operations; the function that it returns waits until as many as were accepted have settled. */
function settledOver({ service, desktops, say }: Stage, began: number) {
  return async (accepted: number) => {
    for (let [count, changedAt] = [-1, performance.now()]; ; await sleep(pollMs)) {
      const { rows } = await service.database.query<{ state: string; count: number }>(
        `select state, count(*)::int as count from operations
          where kind = 'wake' and desktop_id = any($1) and state not in ('pending', 'running') group by state`,
        [desktops],
      )
      const states = Object.fromEntries(rows.map((row) => [row.state === 'succeeded' ? 'done' : row.state, row.count]))
      const now = Object.values(states).reduce((sum, one) => sum + one, 0)
      if (now !== count) {
        count = now
        changedAt = performance.now()
      }
      if (count >= accepted || performance.now() - changedAt > patienceMs) {
        const tookMs = (count >= accepted ? performance.now() : changedAt) - began
        say(`storm: ${count} of ${accepted} settled in ${Math.round(tookMs / 1_000)} s`)
        return { tookMs, states: states as Record<string, number> }
      }
    }
  }
}

/** The epoch of leadership, and how many alarms the control plane has logged. */
export async function standing(service: Service): Promise<{ epoch: number; alarms: number }> {
  const { rows } = await service.database.query<{ epoch: string }>('select epoch from leadership')
  const alarms = readFileSync(service.logFile, 'utf8').split('"alarm":true').length - 1
  return { epoch: Number(rows[0]!.epoch), alarms }
}
