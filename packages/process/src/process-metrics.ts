// Metrics of this process that are the same in every program: CPU, memory, file descriptors, garbage collection, and the lag of
// the event loop. Under the names that prom-client gives them, which common dashboards use.
import { collectDefaultMetrics, Registry } from 'prom-client'

let shared: Registry | undefined

/** The registry of the process. Collecting costs timers and observers, so a process begins it once, at the first scrape. */
export function processMetrics(): Registry {
  if (!shared) {
    shared = new Registry()
    collectDefaultMetrics({ register: shared, eventLoopMonitoringPrecision: 20 })
  }
  return shared
}
