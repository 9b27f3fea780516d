// The list of what is cared for steadily, and how often.

import type { Reconciler } from './reconcile/reconcilers.ts'
import type { Recovery } from './recovery/service.ts'
import type { Streams } from './streams/service.ts'
import type { Usage } from './usage/service.ts'

interface Rooms {
  recovery: Recovery
  usage: Usage
  streams: Streams
}

export const reconcilers = ({ recovery, usage, streams }: Rooms): Reconciler[] => [
  { name: 'rejoin', everyMs: 60_000, run: () => recovery.led() },
  { name: 'deferred-commands', everyMs: 5_000, run: () => recovery.carryOutDeferred() },
  { name: 'usage-ledger', everyMs: 60_000, run: () => usage.compare() },
  { name: 'stream-claims', everyMs: 60_000, run: () => streams.prune() },
]
