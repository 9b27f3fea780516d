// Guarantee: a page notices that its way is dead, and takes no screen for dead on which nothing changes.
import { pulseEveryMs } from '@dormouse/contract/screens'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { watchSilence } from './silence.ts'

beforeEach(() => {
  vi.useFakeTimers()
})
afterEach(() => {
  vi.useRealTimers()
})

function watched() {
  const socket = new EventTarget()
  const silent = vi.fn()
  watchSilence(socket as WebSocket, silent)
  return { socket, silent }
}

test('it is said once, also of a socket that never opened', () => {
  const { silent } = watched()
  vi.advanceTimersByTime(3 * pulseEveryMs)
  expect(silent).toHaveBeenCalledTimes(1)
  vi.advanceTimersByTime(100 * pulseEveryMs)
  expect(silent).toHaveBeenCalledTimes(1)
})

test('as long as pulses come it is not said, nor after the socket has closed', () => {
  const { socket, silent } = watched()
  for (let i = 0; i < 20; i++) {
    vi.advanceTimersByTime(2 * pulseEveryMs)
    socket.dispatchEvent(new Event('message'))
  }
  socket.dispatchEvent(new Event('close'))
  vi.advanceTimersByTime(100 * pulseEveryMs)
  expect(silent).not.toHaveBeenCalled()
})
