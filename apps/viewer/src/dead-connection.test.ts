// Guarantee: a page notices that its connection is dead, and takes no idle screen for dead.
import { pulseEveryMs, type ScreenNote } from '@dormouse/contract/screens'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { onDeadConnection } from './dead-connection.ts'

beforeEach(() => {
  vi.useFakeTimers()
})
afterEach(() => {
  vi.useRealTimers()
})

function watched() {
  const socket = new EventTarget()
  const silent = vi.fn()
  onDeadConnection(socket as WebSocket, silent)
  return {
    silent,
    opens: () => socket.dispatchEvent(new Event('open')),
    closes: () => socket.dispatchEvent(new Event('close')),
    says: (data: unknown) => socket.dispatchEvent(new MessageEvent('message', { data })),
  }
}

const note = (words: ScreenNote): string => JSON.stringify(words)
const pulse = note({ alive: true })
const picture = new ArrayBuffer(16)

test('it is said once, also of a socket that never opened', () => {
  const { silent } = watched()
  vi.advanceTimersByTime(3 * pulseEveryMs)
  expect(silent).toHaveBeenCalledTimes(1)
  vi.advanceTimersByTime(100 * pulseEveryMs)
  expect(silent).toHaveBeenCalledTimes(1)
})

test.each([
  ['pulses', pulse],
  ['pictures, which hold the pulses up on a slow way,', picture],
])('as long as %s come it is not said, and once none do it is', (_what, data) => {
  const { opens, says, silent } = watched()
  opens()
  says(pulse)
  for (let i = 0; i < 20; i++) {
    vi.advanceTimersByTime(2 * pulseEveryMs)
    says(data)
  }
  expect(silent).not.toHaveBeenCalled()
  vi.advanceTimersByTime(4 * pulseEveryMs)
  expect(silent).toHaveBeenCalledTimes(1)
})

test('after the socket has closed it is not said', () => {
  const { opens, says, closes, silent } = watched()
  opens()
  says(pulse)
  closes()
  vi.advanceTimersByTime(100 * pulseEveryMs)
  expect(silent).not.toHaveBeenCalled()
})
