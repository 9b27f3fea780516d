// Gauges of what this replica holds right now, read when they are scraped: connections, links, screens, the pool.

import { Counter, Gauge, type Registry } from 'prom-client'
import { LanedPool } from '../db/lanes.ts'
import type { Pool } from '../db/pool.ts'
import type { Leadership } from '../leadership/leadership.ts'

export interface Held {
  connections: { count: number }
  heldBytes: { count: number }
  inFlight: { count: number }
  links: { hostIds(): string[] }
  channels: { open: number }
  relays: { open: number; bytes: number }
  screens: { open: number }
  events: { heldBackMs: number }
  listeners: { count: number; onEnd(ended: (reason: string) => void): void }
  pool: Pool
  leadership: Leadership
}

/** A figure that is counted when it is scraped. */
export interface Gauged {
  name: string
  help: string
  count(): number
}

export function showGauges(registry: Registry, gauges: Gauged[]): void {
  for (const { name, help, count } of gauges) {
    new Gauge({
      name,
      help,
      registers: [registry],
      collect() {
        this.set(count())
      },
    })
  }
}

/** Shows what this replica holds. */
export function showHeld(registry: Registry, held: Held): void {
  const { connections, heldBytes, inFlight, links, channels, relays, screens, pool } = held
  const show = (name: string, help: string, count: () => number) => showGauges(registry, [{ name, help, count }])
  show('dormouse_connections', 'Open connections', () => connections.count)
  show('dormouse_held_bytes', 'Bytes of incomplete request bodies and unread responses', () => heldBytes.count)
  show('dormouse_http_requests_in_flight', 'Requests without a response', () => inFlight.count)
  show('dormouse_links', 'Hosts that are linked to this replica', () => links.hostIds().length)
  show('dormouse_channels', 'Open byte channels to hosts, for files, screens and relays', () => channels.open)
  show('dormouse_move_relays', 'Moves that pass through this replica', () => relays.open)
  showRelayed(registry, relays)
  show('dormouse_screens', 'Open screens', () => screens.open)
  showListeners(registry, held)
  new Gauge({
    name: 'dormouse_db_pool_connections',
    help: 'Connections of the pool to Postgres, by what they do',
    labelNames: ['state'],
    registers: [registry],
    collect() {
      this.set({ state: 'used' }, pool.totalCount - pool.idleCount)
      this.set({ state: 'idle' }, pool.idleCount)
    },
  })
  show('dormouse_db_pool_waiting', 'Transactions and queries queued in front of the pool', () =>
    pool instanceof LanedPool ? pool.lanes.waiting : pool.waitingCount,
  )
}

function showRelayed(registry: Registry, relays: Held['relays']): void {
  let shown = 0
  new Counter({
    name: 'dormouse_move_relay_bytes_total',
    help: 'Bytes of moves that have passed through this replica',
    registers: [registry],
    collect() {
      this.inc(relays.bytes - shown)
      shown = relays.bytes
    },
  })
}

/** Shows the log of events as this replica serves it. */
function showListeners(registry: Registry, { events, listeners }: Pick<Held, 'events' | 'listeners'>): void {
  const registers = [registry]
  new Gauge({
    name: 'dormouse_event_held_back_seconds',
    help: 'For how long a transaction in progress has held committed events back',
    registers,
    collect() {
      this.set(events.heldBackMs / 1_000)
    },
  })
  new Gauge({
    name: 'dormouse_event_streams',
    help: 'Open streams of events',
    registers,
    collect() {
      this.set(listeners.count)
    },
  })
  const ended = new Counter({
    name: 'dormouse_event_streams_ended_total',
    help: 'Streams of events that have ended, by reason',
    labelNames: ['reason'],
    registers,
  })
  listeners.onEnd((reason) => ended.inc({ reason }))
}

/** Shows whether this replica leads, and how many terms it has begun and lost. */
export function showLeadership(registry: Registry, leadership: Leadership): void {
  const registers = [registry]
  new Gauge({
    name: 'dormouse_leader',
    help: '1 while this replica leads, otherwise 0',
    registers,
    collect() {
      this.set(leadership.term ? 1 : 0)
    },
  })
  new Gauge({
    name: 'dormouse_replica_outdated',
    help: '1 while the database has the schema of a newer release, so that this replica changes nothing; otherwise 0',
    registers,
    collect() {
      this.set(leadership.outdated ? 1 : 0)
    },
  })
  const epoch = new Gauge({
    name: 'dormouse_leader_epoch',
    help: 'Epoch of the last term of this replica; 0 if it has not led',
    registers,
  })
  const began = new Counter({
    name: 'dormouse_leader_terms_total',
    help: 'Terms of leadership that this replica has begun',
    registers,
  })
  leadership.on('led', (term) => {
    began.inc()
    epoch.set(term.epoch)
  })
}
