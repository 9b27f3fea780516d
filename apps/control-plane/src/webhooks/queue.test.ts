// Guarantee: each webhook has its turn when it is due, the longest due first, one at a time; one that may not have it holds up no
// other, and a turn that fails comes again. A turn belongs to no request.
import { currentSpan, type Span, withSpan } from '@dormouse/process'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { Term } from '../leadership/leadership.ts'
import { type Job, WebhookQueue } from './queue.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

const term = () => ({ signal: new AbortController().signal }) as Term
const job = (webhookId: string, inMs: number, failing = false): Job => ({ webhookId, orgId: 'org', failing, inMs })

/** A queue whose turns the test ends. */
function started({ concurrency = 10, mayServe = (_job: Pick<Job, 'failing'>): boolean => true } = {}) {
  const served: string[] = []
  const turns: PromiseWithResolvers<void>[] = []
  const spans: (Span | undefined)[] = []
  const failures: unknown[] = []
  const queue = new WebhookQueue({
    concurrency,
    serve: (webhookId) => {
      served.push(webhookId)
      spans.push(currentSpan())
      turns.push(Promise.withResolvers())
      return turns.at(-1)!.promise
    },
    mayServe,
    failed: (error) => failures.push(error),
  })
  queue.start(term())
  return { queue, served, spans, turns, failures }
}

test('turns come when they are due, the longest due first, as many at once as may', async () => {
  const { queue, served, turns } = started({ concurrency: 2 })
  queue.plan([job('late', 300), job('first', 100), job('second', 200)])
  await vi.advanceTimersByTimeAsync(250)
  expect(served).toEqual(['first', 'second'])
  await vi.advanceTimersByTimeAsync(1_000)
  expect(served).toHaveLength(2)
  turns[0]!.resolve()
  await vi.advanceTimersByTimeAsync(0)
  expect(served).toEqual(['first', 'second', 'late'])
})

test('a webhook has one turn at a time, and another one if it is planned meanwhile', async () => {
  const { queue, served, turns } = started()
  queue.plan([job('one', 0)])
  queue.plan([job('one', 0)])
  expect(served).toEqual(['one'])
  turns[0]!.resolve()
  await vi.advanceTimersByTimeAsync(0)
  expect(served).toEqual(['one', 'one'])
})

test('a new time replaces the old one, unless that is kept', async () => {
  const { queue, served } = started()
  queue.plan([job('replaced', 10_000), job('kept', 10_000)])
  queue.plan([job('replaced', 0)])
  queue.plan([job('kept', 0)], true)
  await vi.advanceTimersByTimeAsync(9_000)
  expect(served).toEqual(['replaced'])
  await vi.advanceTimersByTimeAsync(2_000)
  expect(served).toEqual(['replaced', 'kept'])
})

test('one that may not have its turn waits for the end of another, and holds up none', async () => {
  let failing = 0
  const { queue, served, turns } = started({ mayServe: (each) => !each.failing || failing++ === 0 })
  queue.plan([job('failing', 0, true), job('also failing', 0, true), job('works', 0)])
  expect(served).toEqual(['failing', 'works'])
  failing = 0
  turns[0]!.resolve()
  await vi.advanceTimersByTimeAsync(0)
  expect(served).toEqual(['failing', 'works', 'also failing'])
})

test('a turn does not belong to the request that planned it, nor do those after it', async () => {
  const { queue, served, spans, turns } = started()
  withSpan({ traceparent: 'of a request', end: () => undefined }, () => queue.plan([job('now', 0), job('later', 100)]))
  turns[0]!.resolve()
  await vi.advanceTimersByTimeAsync(200)
  expect([served, spans]).toEqual([
    ['now', 'later'],
    [undefined, undefined],
  ])
})

test('a turn that fails comes again; with the term, the plan ends', async () => {
  const { queue, served, turns, failures } = started()
  queue.plan([job('one', 0)])
  turns[0]!.reject(new Error('the database'))
  await vi.advanceTimersByTimeAsync(3_000)
  expect([served, failures.length]).toEqual([['one', 'one'], 1])
  queue.plan([job('other', 100)])
  queue.stop()
  turns[1]!.reject(new Error('the term'))
  await vi.advanceTimersByTimeAsync(10_000)
  expect(served).toHaveLength(2)
  await queue.idle()
})
