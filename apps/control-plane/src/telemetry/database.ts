// Metrics of the database: the connections of all its clients, and the last good backup.
import type { Log } from '@dormouse/process'
import { Gauge, type Registry } from 'prom-client'
import type { Pool } from '../db/pool.ts'
import { Refreshed } from './refreshed.ts'

const maxAgeMs = 10_000

/** `dormouse-backup` writes the table of backups. */
const look = `select (select sum(numbackends)::int from pg_stat_database) as used,
    current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int as most,
    (select extract(epoch from finished_at)::float8 from backups) as backup`

interface Found {
  used: number
  most: number
  backup: number | null
}

export function databaseMetrics(registry: Registry, pool: Pool, log: Log): Refreshed {
  const registers = [registry]
  const connections = new Gauge({
    name: 'dormouse_database_connections',
    help: 'Connections of all clients to the Postgres server: used, and the most that it accepts',
    labelNames: ['state'],
    registers,
  })
  const backup = new Gauge({
    name: 'dormouse_backup_last_success_timestamp_seconds',
    help: 'When dormouse-backup last wrote a backup that can be read; 0 if it never did',
    registers,
  })
  const read = async () => {
    const { rows } = await pool.query<Found>({ name: 'metrics-database', text: look })
    const found = rows[0]!
    connections.set({ state: 'used' }, found.used)
    connections.set({ state: 'most' }, found.most)
    backup.set(found.backup ?? 0)
  }
  return new Refreshed({ what: 'database', maxAgeMs, read, log })
}
