// Metrics of deliveries to webhooks. No label contains an id or an address.
import { Counter, Histogram, type Registry } from 'prom-client'
import type { Outcome } from './requests.ts'

/** Returns what counts an attempt. */
export function observeAttempts(registry: Registry): (outcome: Outcome) => void {
  const registers = [registry]
  const attempts = new Counter({
    name: 'dormouse_webhook_attempts_total',
    help: 'Attempts of deliveries to webhooks, by outcome',
    labelNames: ['outcome'],
    registers,
  })
  const durations = new Histogram({
    name: 'dormouse_webhook_attempt_duration_seconds',
    help: 'Attempts of deliveries to webhooks, until the status of the response',
    buckets: [0.01, 0.05, 0.1, 0.5, 1, 5, 10],
    registers,
  })
  return ({ error, ms }) => {
    attempts.inc({ outcome: error ?? 'succeeded' })
    durations.observe(ms / 1_000)
  }
}

/** What waits, as the leader counted it last. */
export const waitingGauges = (worker: { waiting: { count: number; oldestSecs: number } }) => [
  {
    name: 'dormouse_webhook_deliveries_waiting',
    help: 'Deliveries to enabled webhooks that have not settled; 0 on a replica that does not lead',
    count: () => worker.waiting.count,
  },
  {
    name: 'dormouse_webhook_oldest_waiting_seconds',
    help: 'By how much the most overdue delivery to a webhook that does not fail is late; 0 on a replica that does not lead',
    count: () => worker.waiting.oldestSecs,
  },
]
