// A way that is dead and was never closed (a host that froze, a network that went away) says nothing: a page cannot ping.
import { pulseEveryMs } from '@dormouse/contract/screens'

/** So many pulses that do not come are no accident. */
const patienceMs = 3 * pulseEveryMs
const lookEveryMs = 1_000

/** Says once that nothing has been heard of the socket's other side for too long, also while it is being opened. */
export function watchSilence(socket: WebSocket, silent: () => void): void {
  let heardAt = performance.now()
  const look = setInterval(() => {
    if (performance.now() - heardAt < patienceMs) return
    clearInterval(look)
    silent()
  }, lookEveryMs)
  socket.addEventListener('message', () => {
    heardAt = performance.now()
  })
  socket.addEventListener('close', () => clearInterval(look))
}
