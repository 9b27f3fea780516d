// Detects a connection that is dead but was never closed, as when a host froze or a network failed: a page cannot ping.
import { pulseEveryMs, type ScreenNote } from '@dormouse/contract/screens'

/** Three missed pulses are no accident. */
const timeoutMs = 3 * pulseEveryMs
const checkEveryMs = 1_000

/**
 * Calls back once when the socket has received nothing for too long: while it opens, and after its first pulse. A replica
 * of an older release sends no pulses, and its silence means nothing.
 */
export function onDeadConnection(socket: WebSocket, dead: () => void): void {
  let heardAt = performance.now()
  let isExpecting = true
  const check = setInterval(() => {
    if (!isExpecting || performance.now() - heardAt < timeoutMs) return
    clearInterval(check)
    dead()
  }, checkEveryMs)
  socket.addEventListener('open', () => {
    isExpecting = false
  })
  socket.addEventListener('message', ({ data }) => {
    heardAt = performance.now()
    isExpecting ||= isPulse(data)
  })
  socket.addEventListener('close', () => clearInterval(check))
}

const isPulse = (data: unknown): boolean => typeof data === 'string' && 'alive' in (JSON.parse(data) as ScreenNote)
