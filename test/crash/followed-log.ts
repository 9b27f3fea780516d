// A client that follows the log of events through a crash, and what it should have seen.
import { createClient, type EventJson } from '@dormouse/client'
import { contradictionsInLog } from '../event-log.ts'
import { waitFor } from '../wait-for.ts'
import type { Stage } from './stage.ts'

export interface FollowedLog {
  /** Ends it; in sentences, what it saw wrongly, and what the log says wrongly. */
  faults(): Promise<string[]>
}

export async function followLog(stage: Stage): Promise<FollowedLog> {
  const client = createClient(stage.customer)
  const stop = new AbortController()
  const [seen, cursors]: [string[], string[]] = [[], []]
  const options = { signal: stop.signal, onCursor: (cursor: string) => void cursors.push(cursor) }
  const following = (async () => {
    for await (const { id } of client.events(options)) seen.push(id)
  })()
  await waitFor('the stream of events', () => cursors.length > 0, stage.testbed.patienceMs)
  return {
    faults: async () => {
      const all: EventJson[] = []
      for (let after = cursors[0]!; ; ) {
        const page = await client.listEvents({ after, limit: 1_000 })
        all.push(...page.events)
        if (!page.more) break
        after = page.cursor
      }
      const isWhole = () => seen.at(-1) === all.at(-1)?.id
      await waitFor('the last event', isWhole, stage.testbed.patienceMs).catch(() => undefined)
      stop.abort()
      await following
      const same = seen.length === all.length && all.every(({ id }, i) => seen[i] === id)
      return [
        ...(same ? [] : [`a client saw ${seen.length} events of ${all.length}: ${differences(seen, all)}`]),
        ...(await contradictionsInLog(
          async <R extends object>(text: string) => (await stage.pool.query(text)).rows as R[],
        )),
      ]
    },
  }
}

/** What was missed, and what came that the log does not have, or came twice. */
function differences(seen: string[], all: EventJson[]): string {
  const [seenIds, ids] = [new Set(seen), new Set(all.map(({ id }) => id))]
  const missed = all.flatMap(({ id, type }, at) => (seenIds.has(id) ? [] : [`missed ${type}, number ${at + 1}`]))
  const odd = seen.filter((id, at) => !ids.has(id) || seen.indexOf(id) !== at)
  return [...missed, ...odd.map((id) => `${id} is twice or unknown`)].join(', ') || 'in another order'
}
