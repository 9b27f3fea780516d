// From the log of events to deliveries, exactly once: the deliveries and the position behind their events are written in one
// transaction of the leader. Sends nothing.
import { matches, newId, parseSelector, type Selector, SelectorError } from '@dormouse/contract'
import type { Failpoints, Log } from '@dormouse/process'
import type { Pool } from '../db/pool.ts'
import type { Tx } from '../db/transactions.ts'
import { cursorOf, type Position } from '../events/cursors.ts'
import { CursorGone, type EventFeed } from '../events/feed.ts'
import type { EventRow } from '../events/store.ts'
import type { Leadership } from '../leadership/leadership.ts'
import * as budget from './budget.ts'
import * as deliveries from './deliveries.ts'
import type { Job } from './queue.ts'
import * as store from './store.ts'

export interface LogReaderOptions {
  pool: Pool
  leadership: Leadership
  feed: Pick<EventFeed, 'now' | 'readAfter'>
  failpoints: Failpoints
  log: Log
  /** Plans a turn of a webhook at once. One that fails keeps its time. */
  plan(job: Job): void
}

const eventsAtOnce = 200

export class LogReader {
  readonly #options: LogReaderOptions

  constructor(options: LogReaderOptions) {
    this.#options = options
  }

  /**
   * Makes the deliveries of all events that are settled now. One call at a time. The position needs no lineage: it is in the
   * database of the log, and is restored with it.
   */
  async read(from: store.ReadFrom & { leastWanted: number }): Promise<void> {
    const { feed, leadership, failpoints, plan } = this.#options
    const end = await feed.now()
    const { lineage } = end
    let stored = from.seq
    for (let at = Math.max(stored, from.leastWanted); at < end.seq; ) {
      const { events, position } = await this.#page({ lineage, seq: at })
      await failpoints.hit('webhooks.log.before')
      let jobs: Job[] = []
      const queue = leadership.transaction(async (tx) => {
        if (!(await store.advance(tx, stored, position.seq))) return false
        jobs = await queueEvents(tx, events, lineage)
        await failpoints.hit('webhooks.log.queued')
        return true
      })
      // A turn sees only what is committed. After an error, that may have been done, too.
      const moved = await queue.finally(() => jobs.forEach(plan))
      await failpoints.hit('webhooks.log.after')
      if (!moved) return
      stored = position.seq
      at = position.seq
    }
  }

  async #page(after: Position): Promise<{ events: EventRow[]; position: Position }> {
    try {
      return await this.#options.feed.readAfter(after, { limit: eventsAtOnce })
    } catch (error) {
      if (!(error instanceof CursorGone)) throw error
      this.#options.log.error(
        { position: after, oldest: error.oldest, alarm: true, alarmKind: 'webhooks' },
        'events were dropped from the log before they were sent to webhooks; their receivers miss them',
      )
      return { events: [], position: error.oldest }
    }
  }
}

/** Returns the turns that they need. */
async function queueEvents(tx: Tx, events: EventRow[], lineage: string): Promise<Job[]> {
  const orgIds = [...new Set(events.flatMap(({ orgId }) => orgId ?? []))]
  if (orgIds.length === 0) return []
  const webhooks = await store.lockEnabledOf(tx, orgIds)
  if (webhooks.length === 0) return []
  const jobs: Job[] = []
  const left = await budget.lock(tx, [...new Set(webhooks.map(({ orgId }) => orgId))].sort())
  for (const { webhook, wanted, leftOut } of share(webhooks, events, left)) {
    if (leftOut > 0) await budget.leaveOut(tx, webhook.id, leftOut)
    if (wanted.length === 0) continue
    const made = wanted.map((event, at) => deliveryOf(webhook, event, lineage, webhook.lastSequence + at + 1))
    await deliveries.insert(tx, made)
    await budget.spend(tx, webhook.orgId, wanted.length)
    await store.countDeliveries(tx, webhook.id, webhook.lastSequence + wanted.length)
    jobs.push({ webhookId: webhook.id, orgId: webhook.orgId, failing: webhook.failingSince !== null, inMs: 0 })
  }
  return jobs
}

interface Shared {
  webhook: store.WebhookRow
  /** Of the desktops whose events it gets; null: all. */
  selector: Selector | null
  wanted: EventRow[]
  leftOut: number
}

/** Event by event, so that each of an organisation's webhooks gets the same ones, as long as its budget lasts. */
function share(webhooks: store.WebhookRow[], events: EventRow[], budgets: Map<string, number>): Shared[] {
  const shared = webhooks.map((webhook): Shared => {
    const selector = webhook.selector === null ? null : storedSelector(webhook.selector)
    return { webhook, selector, wanted: [], leftOut: 0 }
  })
  for (const event of events) {
    const takers = shared.filter((taker) => wants(taker, event))
    const left = budgets.get(event.orgId ?? '') ?? 0
    const isLeftOut = takers.length > left && !saysWhatIsMissing(event)
    for (const taker of takers) {
      if (isLeftOut) taker.leftOut++
      else taker.wanted.push(event)
    }
    if (!isLeftOut) budgets.set(event.orgId ?? '', left - takers.length)
  }
  return shared
}

/** One of a later release, which does not parse here, selects nothing: an error would stop the deliveries of everybody. */
function storedSelector(text: string): Selector {
  try {
    return parseSelector(text)
  } catch (error) {
    if (error instanceof SelectorError) return [{ key: '', is: 'in', values: [] }]
    throw error
  }
}

/** Events that may be missing in the log. */
const budgeted = /^(wake_lock|claim|key)\./

/** These are few. */
const saysWhatIsMissing = ({ type }: EventRow): boolean => type === 'events.left_out' || type === 'deliveries.left_out'

function wants({ webhook, selector }: Shared, event: EventRow): boolean {
  const { id, orgId, types, afterSeq } = webhook
  if (event.orgId !== orgId || event.seq <= afterSeq) return false
  // Whatever types it has chosen, it must know that it has missed some.
  if (event.type === 'deliveries.left_out') return event.data.webhook_id === id
  if (selector !== null && event.type !== 'events.left_out' && !isSelected(selector, event)) return false
  if (types === null || types.includes(event.type)) return true
  return event.type === 'events.left_out' && types.some((type) => budgeted.test(type))
}

/** Events that concern no desktop are not. */
const isSelected = (selector: Selector, { desktopId, labels }: EventRow): boolean =>
  desktopId !== null && matches(selector, labels ?? {})

function deliveryOf(
  webhook: store.WebhookRow,
  event: EventRow,
  lineage: string,
  sequence: number,
): deliveries.NewDelivery {
  const id = cursorOf({ lineage, seq: event.seq })
  const { type, desktopId, data } = event
  const timestamp = event.at.toISOString()
  const body = { id, type, timestamp, webhook_id: webhook.id, sequence, desktop_id: desktopId, data }
  return {
    id: newId(),
    webhookId: webhook.id,
    eventId: id,
    eventAt: timestamp,
    type,
    sequence,
    body: JSON.stringify(body),
  }
}
