// A wake of every desktop, all sent as fast as the service answers. What counts is what becomes of each of them.
import { residentMiB } from '../cpu.ts'
import { percentile } from '../statistics.ts'
import { counted, cpuMs, failuresSince, inShort, sendAll, settledSince, standing } from './operations.ts'
import type { ScaleSubject, Stage } from './size.ts'

export const storm: ScaleSubject = {
  name: 'storm',
  what: 'a first wake of every desktop, all sent at once by 512 callers, until the last has settled',
  run: async ({ service, desktops, say }: Stage) => {
    const before = await standing(service)
    const counts = await counted(service)
    const cpu = cpuMs(service)
    const [since, began] = [new Date(), performance.now()]
    let accepted: number | undefined
    const sending = async () => {
      const sent = await sendAll(service, desktops, 'wake')
      accepted = sent.accepted
      return { ...sent, tookMs: performance.now() - began }
    }
    const settling = settledSince(service, counts, () => accepted, say)
    const [sent, { succeeded, failed, endedAt }] = await Promise.all([sending(), settling])
    if (sent.statuses.size > 1) say(`  answers: ${inShort(sent.statuses)}`)
    if (failed > 0) say(`  failed: ${inShort(await failuresSince(service, since))}`)
    const after = await standing(service)
    const used = cpuMs(service)
    const each = (name: string) => (used[name]! - cpu[name]!) / Math.max(sent.accepted, 1)
    return {
      sent: desktops.length,
      accepted: sent.accepted,
      refused: desktops.length - sent.accepted,
      'settled well': succeeded,
      failed,
      lost: sent.accepted - succeeded - failed,
      'accepted per second': (sent.accepted * 1_000) / sent.tookMs,
      'settled per second': (succeeded * 1_000) / (endedAt - began),
      'p50 of an answer, ms': percentile(sent.times, 0.5),
      'changes of leader': after.epoch - before.epoch,
      alarms: after.alarms - before.alarms,
      'control plane, CPU ms each': each('control plane'),
      'Postgres, CPU ms each': each('Postgres'),
      'hosts, CPU ms each': each('hosts'),
      'generator, CPU ms each': each('generator'),
      'control plane, peak MiB': residentMiB(service.controlPlane.pid!, 'VmHWM'),
    }
  },
}
