// Detects a connection that is dead but was never closed, as when a host froze or a network failed: a page cannot ping.
import { pulseEveryMs } from '@dormouse/contract/screens'

/** Three missed pulses are no accident. */
const timeoutMs = 3 * pulseEveryMs
const checkEveryMs = 1_000

/** Calls back once when the socket has received nothing for too long, also while it opens. */
export function onDeadConnection(socket: WebSocket, dead: () => void): void {
  let heardAt = performance.now()
  const check = setInterval(() => {
    if (performance.now() - heardAt < timeoutMs) return
    clearInterval(check)
    dead()
  }, checkEveryMs)
  socket.addEventListener('message', () => {
    heardAt = performance.now()
  })
  socket.addEventListener('close', () => clearInterval(check))
}
