// Guarantee: a follower has seen every settled event up to the position of the feed, whatever the feed waits for.
import { expect, test } from 'vitest'
import type { Pool } from '../db/pool.ts'
import { EventFeed } from './feed.ts'

test('events before a gap are handed on in the turn that moves the position, also where the question about the gap fails', async () => {
  const pool = {
    query: async (asked: string | object) => {
      if (typeof asked === 'object') return { rows: [5, 7].map((seq) => ({ seq, lineage: 'aaaaaaaa', xmin: 90 })) }
      if (asked.includes('settled')) return { rows: [{ settled: 4 }] }
      expect([feed.position.seq, saw]).toEqual([5, [5]])
      throw new Error('the database is unavailable')
    },
  } as unknown as Pool
  const silent = { debug() {}, warn() {}, error() {} } as never
  const notices = { onNotice() {}, listen() {} } as never
  const saw: number[] = []
  const feed = new EventFeed({ pool, leadership: undefined as never, notices, log: silent })
  feed.follow({ saw: (events) => saw.push(...events.map(({ seq }) => seq)) })
  await expect(feed.look()).rejects.toThrow('unavailable')
  expect(saw).toEqual([5])
  feed.close()
})
