// The list of reconcilers, each with its interval. Those of wings come from `wings.ts`.
import type { EventFeed } from './events/feed.ts'
import type { EventPartitions } from './events/partitions.ts'
import type { Uploads } from './guest/uploads.ts'
import type { Hosts } from './hosts/service.ts'
import type { Images } from './images/service.ts'
import type { Engine } from './operations/engine.ts'
import type { Reconciler } from './reconcile/reconcilers.ts'
import type { Recovery } from './recovery/service.ts'
import type { Retention } from './retention/service.ts'
import type { Streams } from './streams/service.ts'
import type { Usage } from './usage/service.ts'

interface Modules {
  engine: Engine
  recovery: Recovery
  usage: Usage
  streams: Streams
  retention: Retention
  images: Images
  hosts: Hosts
  events: EventFeed
  eventPartitions: EventPartitions
  uploads: Uploads
  wings: { reconcilers: Reconciler[] }
}

export const reconcilers = ({ engine, recovery, usage, streams, hosts, ...modules }: Modules): Reconciler[] => [
  { name: 'operations', everyMs: 5_000, run: () => engine.adoptUnstarted() },
  { name: 'rejoin', everyMs: 60_000, run: () => recovery.compareAll() },
  { name: 'deferred-commands', everyMs: 5_000, run: () => recovery.sendDeferred() },
  { name: 'usage-ledger', everyMs: 60_000, run: () => usage.compare() },
  { name: 'stream-claims', everyMs: 60_000, run: () => streams.prune() },
  { name: 'expired-claims', everyMs: 5_000, run: () => streams.noteExpired() },
  { name: 'uploads', everyMs: 30_000, run: () => modules.uploads.prune() },
  { name: 'images', everyMs: 10_000, run: () => modules.images.prefetch() },
  { name: 'silent-hosts', everyMs: 2_000, run: () => hosts.noteUnreachable() },
  {
    name: 'events',
    everyMs: 10_000,
    run: () => modules.events.note().then((heldBackMs) => recovery.checkEvents(heldBackMs)),
  },
  { name: 'event-partitions', everyMs: 300_000, run: () => modules.eventPartitions.maintain() },
  { name: 'audit', everyMs: 10_000, run: () => modules.retention.noteLeftOut() },
  { name: 'retention', everyMs: 600_000, run: () => modules.retention.prune() },
  ...modules.wings.reconcilers,
]
