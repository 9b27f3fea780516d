// Metrics of this process that are the same in every program: its release, CPU, memory, file descriptors, garbage collection,
// and the lag of the event loop. Under the names that prom-client gives them, which common dashboards use.
import { collectDefaultMetrics, Gauge, Registry } from 'prom-client'
import { release } from './release.ts'
import { outdatedFiles } from './reread.ts'

let shared: Registry | undefined

/** The registry of the process. Collecting costs timers and observers, so a process begins it once, at the first scrape. */
export function processMetrics(): Registry {
  if (!shared) {
    shared = new Registry()
    collectDefaultMetrics({ register: shared, eventLoopMonitoringPrecision: 20 })
    new Gauge({
      name: 'dormouse_files_outdated',
      help: '1: files that have changed cannot be used, and what was read before them stays in use; `what` names them',
      labelNames: ['what'],
      registers: [shared],
      collect() {
        for (const [what, value] of outdatedFiles()) this.set({ what }, value)
      },
    })
    const help = '1; the labels are the release of this program and the commit it was built from'
    const labelNames = ['version', 'commit'] as const
    new Gauge({ name: 'dormouse_build_info', help, labelNames, registers: [shared] }).set(release, 1)
  }
  return shared
}
