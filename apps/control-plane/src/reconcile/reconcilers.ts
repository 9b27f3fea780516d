// Runs reconcilers: idempotent functions without input that are repeated while this replica leads.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Log } from '@dormouse/process'
import { inLane } from '../db/lanes.ts'
import type { Leadership, Term } from '../leadership/leadership.ts'

export interface Reconciler {
  name: string
  everyMs: number
  run(): Promise<void>
}

/** Runs each reconciler at its interval during every term. A failure is logged, and the next run follows as usual. */
export function reconcile(leadership: Leadership, reconcilers: Reconciler[], log: Log): void {
  leadership.on('led', (term) => {
    for (const reconciler of reconcilers) void inLane('work', () => keepRunning(term, reconciler, log))
  })
}

async function keepRunning(term: Term, { name, everyMs, run }: Reconciler, log: Log): Promise<void> {
  while (!term.signal.aborted) {
    await run().catch((error) => log.warn({ err: error, reconciler: name }, 'a reconciler failed; it will run again'))
    await sleep(everyMs, undefined, { signal: term.signal, ref: false }).catch(() => undefined)
  }
}
