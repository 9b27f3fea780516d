// Guarantee: the log of events loses, doubles and reorders nothing of one desktop, whatever its writers and readers do.
import type { Position } from '@dormouse/control-plane/events/cursors.ts'
import { CursorGone, type EventFeed } from '@dormouse/control-plane/events/feed.ts'
import type { EventRow } from '@dormouse/control-plane/events/store.ts'
import pg from 'pg'
import { expect, inject, test } from 'vitest'
import { contradictionsInLog } from '../event-log.ts'
import { waitFor } from '../wait-for.ts'
import { change, makeDesktops, openFeed, ownLog, partitionsOf, readAll } from './parts/event-log.ts'

/** From each desktop to the generations of its events, in the order in which they were seen. */
function byDesktop(events: EventRow[]): Map<string, number[]> {
  const seen = new Map<string, number[]>()
  for (const { desktopId, data, type } of events)
    if (type === 'desktop.state' && data.state !== 'created')
      seen.set(desktopId!, [...(seen.get(desktopId!) ?? []), Number(data.generation)])
  return seen
}

async function withClients<T>(url: string, count: number, work: (clients: pg.Client[]) => Promise<T>): Promise<T> {
  const clients = Array.from({ length: count }, () => new pg.Client({ connectionString: url }))
  await Promise.all(clients.map((client) => client.connect()))
  try {
    return await work(clients)
  } finally {
    await Promise.all(clients.map((client) => client.end()))
  }
}

/** Waits until the feed has the log up to there. A transaction in another database of the same server holds it back too. */
const settled = (feed: EventFeed, seq: number) =>
  waitFor(`the log up to ${seq}`, async () => (await feed.now()).seq >= seq)

test('ten writers of short and long transactions, and readers that come and go', async () => {
  await using log = await ownLog(inject('databaseUrl'), 2)
  const { database } = log
  const [one, other] = log.feeds as [EventFeed, EventFeed]
  const { ids } = await makeDesktops(database, 5)
  const start = await one.now()
  const [live, again]: [EventRow[], EventRow[]] = [[], []]
  one.follow({ saw: (events) => live.push(...events) })
  await withClients(database.url, 10, (clients) =>
    Promise.all([
      ...clients.map(async (client, writer) => {
        for (let turn = 0; turn < 25; turn++) {
          const pauseMs = writer < 2 ? 20 : writer < 4 ? 3 : 0
          await change(client, ids[(writer + turn) % ids.length]!, { pauseMs, rollback: (turn + writer) % 7 === 0 })
        }
      }),
      // A reader that comes back with its last cursor, each time at another replica.
      (async () => {
        let position = start
        for (let turn = 0; turn < 40; turn++) {
          await using replica = openFeed(database.url)
          const page = await (turn % 2 === 0 ? replica.feed : other).readAfter(position, { limit: 3 + turn })
          again.push(...page.events)
          position = page.position
        }
        again.push(...(await readAll(other, position, 10)))
      })(),
    ]),
  )
  const rows = await database.rows<{ id: string; generation: number }>('select id, generation from desktops')
  const expected = new Map(
    rows.map(({ id, generation }) => [id, Array.from({ length: Number(generation) }, (_, i) => i + 1)]),
  )
  const [{ last } = { last: 0 }] = await database.rows<{ last: number }>('select max(seq) as last from events')
  await waitFor('the live reader', () => live.at(-1)?.seq === last)
  await Promise.all([one, other].map((feed) => settled(feed, last)))
  again.push(...(await readAll(other, { ...start, seq: again.at(-1)!.seq }, 50)))
  expect(byDesktop(live)).toEqual(expected)
  expect(byDesktop(again)).toEqual(expected)
  expect(live.map(({ seq }) => seq)).toEqual(again.map(({ seq }) => seq))
  expect(byDesktop(await readAll(one, start, 7))).toEqual(expected)
})

test('of two transactions on one desktop, the one that commits first comes first, whichever began first', async () => {
  await using log = await ownLog(inject('databaseUrl'))
  const [feed] = log.feeds as [EventFeed]
  const { ids } = await makeDesktops(log.database, 1)
  const start = await feed.now()
  await withClients(log.database.url, 2, async ([late, early]) => {
    await late!.query('begin')
    await late!.query('select 1 from leadership for key share')
    await change(early!, ids[0]!)
    await late!.query(`update desktops set state = 'stopped', generation = 2 where id = $1`, [ids[0]])
    await late!.query('commit')
  })
  expect((await readAll(feed, start, 10)).map(({ data }) => data.state)).toEqual(['awake', 'stopped'])
  const xids = await log.database.rows<{ xid: string }>('select xid::text from events order by seq desc limit 2')
  expect(Number(xids[0]!.xid)).toBeLessThan(Number(xids[1]!.xid))
})

test('what is committed behind a number that may still appear is held back, and nothing else is', async () => {
  await using log = await ownLog(inject('databaseUrl'), 2)
  const [feed, starting] = log.feeds as [EventFeed, EventFeed]
  const { ids } = await makeDesktops(log.database, 3)
  const start = await feed.now()
  await withClients(log.database.url, 3, async ([long, writer, idle]) => {
    // Somebody's long transaction that has written nothing here.
    await idle!.query('begin; select pg_current_xact_id()')
    await change(writer!, ids[0]!)
    expect(await readAll(feed, start, 10)).toHaveLength(1)
    await long!.query('begin')
    await long!.query(`update desktops set state = 'stopped' where id = $1`, [ids[1]])
    await change(writer!, ids[2]!)
    expect(await readAll(feed, start, 10)).toHaveLength(1)
    expect(feed.heldBackMs).toBeGreaterThan(0)
    await long!.query('rollback')
    // It may still be of the other transaction.
    expect(await readAll(feed, start, 10)).toHaveLength(1)
    await idle!.query('commit')
    // Other tests have transactions on the same server.
    for (const each of [feed, starting]) {
      const isThere = async () => (await readAll(each, start, 10)).length > 1
      await waitFor('the gap to be skipped', isThere)
      expect((await readAll(each, start, 10)).map(({ desktopId }) => desktopId)).toEqual([ids[0], ids[2]])
      expect(each.heldBackMs).toBe(0)
    }
  })
})

test('a cursor that is too old, from the future or of another database is refused with the oldest', async () => {
  await using log = await ownLog(inject('databaseUrl'))
  const [feed] = log.feeds as [EventFeed]
  await makeDesktops(log.database, 3)
  const { lineage, seq } = await feed.now()
  const read = (position: Position) => feed.readAfter(position, { limit: 10 }).catch((error: unknown) => error)
  expect(await read({ lineage, seq })).toMatchObject({ events: [] })
  await log.database.rows('update event_log set dropped = 2')
  for (const position of [
    { lineage, seq: 1 },
    { lineage, seq: seq + 1 },
    { lineage: '00000000', seq },
  ]) {
    const gone = await read(position)
    expect(gone).toBeInstanceOf(CursorGone)
    expect(gone).toMatchObject({ oldest: { lineage, seq: 2 } })
  }
  expect(await read({ lineage, seq: 2 })).toMatchObject({ events: [{ seq: 3 }] })
  // A dump that was restored.
  await using restored = await ownLog(inject('databaseUrl'))
  const elsewhere = await restored.feeds[0]!.now()
  expect(elsewhere.lineage).not.toBe(lineage)
})

test('a rare type in a long log is found, a part of the log at a time', async () => {
  await using log = await ownLog(inject('databaseUrl'))
  const [feed] = log.feeds as [EventFeed]
  const { orgId } = await makeDesktops(log.database, 1)
  const start = await feed.now()
  await log.database.rows(`insert into events (org_id, type) select $1, 'key.created' from generate_series(1, 12000)`, [
    orgId,
  ])
  await log.database.rows(`insert into events (org_id, type) values ($1, 'key.revoked')`, [orgId])
  await feed.look()
  const query = { limit: 5, orgId, types: ['key.revoked'] }
  const pages = []
  for (let position = start; position.seq < feed.position.seq; ) {
    const page = await feed.readAfter(position, query)
    pages.push(page.events.length)
    position = page.position
  }
  expect(pages).toEqual([0, 0, 1])
  expect((await feed.readAfter(start, { limit: 5, hostId: orgId })).position.seq).toBe(start.seq + 5_000)
})

test('partitions are made ahead and dropped with their days, and what has none is kept as long', async () => {
  await using log = await ownLog(inject('databaseUrl'))
  await using own = openFeed(log.database.url)
  const { ids } = await makeDesktops(log.database, 2)
  const partitions = partitionsOf(own.pool, 7)
  const days = async () => {
    const rows = await log.database.rows<{ name: string }>(
      `select inhrelid::regclass::text as name from pg_inherits where inhparent = 'events'::regclass order by 1`,
    )
    return rows.length - 1
  }
  const day = 86_400_000
  const before = await feedPosition(own.feed)
  await partitions.maintain()
  expect(await days()).toBe(4)
  // Nobody led for a month: the events of that day have no partition, and stay where they are when it is made.
  await log.database.rows(
    `insert into events (at, desktop_id, type) values (now() + interval '30 days', $1, 'desktop.state')`,
    [ids[0]],
  )
  expect(await log.database.rows('select 1 from events_unplaced')).toHaveLength(1)
  await partitions.maintain(Date.now() + 30 * day)
  expect(await days()).toBe(3)
  expect(await readAll(own.feed, await own.feed.oldest(), 10)).toMatchObject([{ desktopId: ids[0] }])
  const old = await own.feed.readAfter(before, { limit: 10 }).catch((error: unknown) => error)
  expect(old).toBeInstanceOf(CursorGone)
  await partitions.maintain(Date.now() + 39 * day)
  expect(await readAll(own.feed, await own.feed.oldest(), 10)).toEqual([])
  expect(await log.database.rows('select 1 from events')).toEqual([])
})

test('a partition that cannot be dropped holds up no other', async () => {
  await using log = await ownLog(inject('databaseUrl'))
  await using own = openFeed(log.database.url)
  const partitions = partitionsOf(own.pool, 7)
  const day = 86_400_000
  for (const ahead of [0, 1]) await partitions.maintain(Date.now() + ahead * day)
  const names = async () => {
    const rows = await log.database.rows<{ name: string }>(
      `select inhrelid::regclass::text as name from pg_inherits
       where inhparent = 'events'::regclass and inhrelid::regclass::text <> 'events_unplaced' order by 1`,
    )
    return rows.map(({ name }) => name)
  }
  const [oldest] = await names()
  await log.database.rows(`create view looked_at as select * from ${oldest}`)
  await partitions.maintain(Date.now() + 30 * day)
  const [stuck, next] = await names()
  expect(stuck).toBe(oldest)
  // Today's, a month later.
  expect(next).toBe(`events_${new Date(Date.now() + 30 * day).toISOString().slice(0, 10).replaceAll('-', '')}`)
})

/** The position before everything. */
const feedPosition = async (feed: EventFeed): Promise<Position> => ({ ...(await feed.now()), seq: 0 })

test('an event that is missing, or in the wrong place, contradicts the tables', async () => {
  await using log = await ownLog(inject('databaseUrl'))
  const { ids } = await makeDesktops(log.database, 1)
  await withClients(log.database.url, 1, async ([client]) => {
    for (let turn = 0; turn < 3; turn++) await change(client!, ids[0]!)
  })
  const contradictions = () => contradictionsInLog((text) => log.database.rows(text))
  expect(await contradictions()).toEqual([])
  await log.database.rows(`update events set seq = seq + 100 where data->>'generation' = '1'`)
  expect(await contradictions()).toContainEqual(expect.stringContaining('but before it came'))
  await log.database.rows(`delete from events where data->>'generation' in ('1', '3')`)
  expect(await contradictions()).toContainEqual(expect.stringContaining('the last event of desktop'))
})
