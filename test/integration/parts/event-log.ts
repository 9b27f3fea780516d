// A log of events on a database of its own, with feeds as replicas have them, and writers that change desktops as they please.

import { newId } from '@dormouse/contract'
import { openPool, type Pool } from '@dormouse/control-plane/db/pool.ts'
import { transaction } from '@dormouse/control-plane/db/transactions.ts'
import { CommitNotices } from '@dormouse/control-plane/events/commit-notices.ts'
import { cursorOf, type Position, parseCursor } from '@dormouse/control-plane/events/cursors.ts'
import { EventFeed } from '@dormouse/control-plane/events/feed.ts'
import { EventPartitions } from '@dormouse/control-plane/events/partitions.ts'
import type { EventRow } from '@dormouse/control-plane/events/store.ts'
import { createLog } from '@dormouse/process'
import type pg from 'pg'
import { Database } from './database.ts'

const log = createLog({ name: 'events', level: 'silent' })

export interface Feed extends AsyncDisposable {
  pool: Pool
  feed: EventFeed
}

/** A feed with connections of its own, as another replica has it. */
export function openFeed(databaseUrl: string, pollMs = 50): Feed {
  const pool = openPool(databaseUrl, 4, () => undefined)
  const notices = new CommitNotices({ pool, databaseUrl, log })
  const leadership = { transaction: () => Promise.reject(new Error('it does not lead')) } as never
  const feed = new EventFeed({ pool, leadership, notices, log, pollMs })
  return {
    pool,
    feed,
    [Symbol.asyncDispose]: async () => {
      feed.close()
      await notices.close()
      await pool.end()
    },
  }
}

export interface OwnLog extends AsyncDisposable {
  database: Database
  feeds: EventFeed[]
}

/** A database of its own, and feeds on it. */
export async function ownLog(server: string, feeds = 1): Promise<OwnLog> {
  const database = await Database.create(server)
  const open = Array.from({ length: feeds }, () => openFeed(database.url))
  return {
    database,
    feeds: open.map(({ feed }) => feed),
    [Symbol.asyncDispose]: async () => {
      for (const each of open) await each[Symbol.asyncDispose]()
      await database.drop()
    },
  }
}

/** Maintains the log's partitions, as the leader does. */
export const partitionsOf = (pool: Pool, keepDays: number): EventPartitions =>
  new EventPartitions({ leadership: { transaction: (work: never) => transaction(pool, work) } as never, log, keepDays })

export async function makeDesktops(database: Database, count: number): Promise<{ orgId: string; ids: string[] }> {
  const orgId = newId()
  await database.rows(`insert into organisations (id, name) values ($1, 'events')`, [orgId])
  const ids = Array.from({ length: count }, () => newId())
  await database.rows(
    `insert into desktops (id, org_id, tier, state, image_version, vcpus, memory_mib, disk_gib, idle_timeout_secs, billing_mode)
     select id, $2, 'small', 'created', 'mini', 1, 1, 1, 0, 'hourly' from unnest($1::uuid[]) id`,
    [ids, orgId],
  )
  return { orgId, ids }
}

/** Changes a desktop's state, in a transaction that has its id before the desktop's lock, as the leader's fence gives it. */
export async function change(client: pg.ClientBase, id: string, how: { pauseMs?: number; rollback?: boolean } = {}) {
  await client.query('begin')
  await client.query('select 1 from leadership for key share')
  if (how.pauseMs) await client.query('select pg_sleep($1)', [how.pauseMs / 1_000])
  await client.query(
    `update desktops set generation = generation + 1, state = case state when 'awake' then 'hibernated' else 'awake' end
     where id = $1`,
    [id],
  )
  if (how.pauseMs) await client.query('select pg_sleep($1)', [how.pauseMs / 1_000])
  await client.query(how.rollback ? 'rollback' : 'commit')
}

/** Everything after the position, in pages of that size; each page's cursor goes through its text. */
export async function readAll(feed: EventFeed, from: Position, limit: number): Promise<EventRow[]> {
  await feed.look()
  const all: EventRow[] = []
  for (let position = from; position.seq < feed.position.seq; ) {
    const page = await feed.readAfter(position, { limit })
    all.push(...page.events)
    position = parseCursor(cursorOf(page.position))!
  }
  return all
}
