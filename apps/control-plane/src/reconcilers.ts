// The list of what is cared for steadily, and how often.

import type { Reconciler } from './reconcile/reconcilers.ts'
import type { Recovery } from './recovery/service.ts'
import type { Usage } from './usage/service.ts'

export const reconcilers = ({ recovery, usage }: { recovery: Recovery; usage: Usage }): Reconciler[] => [
  { name: 'rejoin', everyMs: 60_000, run: () => recovery.led() },
  { name: 'deferred-commands', everyMs: 5_000, run: () => recovery.carryOutDeferred() },
  { name: 'usage-ledger', everyMs: 60_000, run: () => usage.compare() },
]
