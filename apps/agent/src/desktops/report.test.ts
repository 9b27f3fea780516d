// Guarantee: a fast operation sends its result alone; of a slow one, callers see the phase that it is in.
import { newId } from '@dormouse/contract'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { fenceOf } from '../testing/bench.ts'
import { PhaseFilter, reportPhase, type SendReport } from './report.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

function filter() {
  const sent: unknown[] = []
  const on = { busy: true }
  const phases = new PhaseFilter(
    (_, report) => sent.push(report),
    () => on.busy,
  )
  const send: SendReport = (name, report) => phases.send(name, report)
  return { sent, on, send, fence: fenceOf(newId(), 1, 1) }
}

test('an operation that ends within 100 ms sends no phase', () => {
  const { sent, on, send, fence } = filter()
  reportPhase(send, fence, 'restoring')
  reportPhase(send, fence, 'waiting-for-guest')
  on.busy = false
  vi.runAllTimers()
  expect(sent).toEqual([])
})

test('one that takes longer sends the phase that it is in by then, and each later one', () => {
  const { sent, send, fence } = filter()
  reportPhase(send, fence, 'restoring')
  vi.advanceTimersByTime(50)
  reportPhase(send, fence, 'waiting-for-guest')
  vi.advanceTimersByTime(50)
  reportPhase(send, fence, 'saving')
  vi.runAllTimers()
  expect(sent).toMatchObject([{ phase: 'waiting-for-guest' }, { phase: 'saving' }])
})

test('bytes and observations are sent at once, and no older phase after them', () => {
  const { sent, send, fence } = filter()
  const { desktopId, operationId } = fence
  reportPhase(send, fence, 'restoring')
  send('operation.progress', { desktopId, operationId, phase: 'saving', doneBytes: 1, totalBytes: 2 })
  expect(sent).toMatchObject([{ phase: 'saving', doneBytes: 1 }])
  vi.runAllTimers()
  expect(sent).toHaveLength(1)
})
