// A way that is dead and was never closed (a host that froze, a network that went away) says nothing: a page cannot ping.
import { pulseEveryMs, type ScreenNote } from '@dormouse/contract/screens'

/** So many pulses that do not come are no accident. */
const patienceMs = 3 * pulseEveryMs
const lookEveryMs = 1_000

/**
 * Says once that nothing has been heard of the socket's other side for too long: while it is being opened, and once it
 * has told a pulse. A replica of an older kind tells none, and its silence means nothing.
 */
export function watchSilence(socket: WebSocket, silent: () => void): void {
  let heardAt = performance.now()
  let isAwaited = true
  const look = setInterval(() => {
    if (!isAwaited || performance.now() - heardAt < patienceMs) return
    clearInterval(look)
    silent()
  }, lookEveryMs)
  socket.addEventListener('open', () => {
    isAwaited = false
  })
  socket.addEventListener('message', ({ data }) => {
    heardAt = performance.now()
    isAwaited ||= isPulse(data)
  })
  socket.addEventListener('close', () => clearInterval(look))
}

const isPulse = (data: unknown): boolean => typeof data === 'string' && 'alive' in (JSON.parse(data) as ScreenNote)
