// Notices a socket whose other end is gone without a word (power, cable, frozen process).
// Knows nothing of what the socket carries.
import type { WebSocket } from 'ws'

export interface Heartbeat {
  /** How often the other side is asked for a sign of life. */
  pingIntervalMs: number
  /** How long it may stay silent after being asked. */
  pingTimeoutMs: number
}

/** What was asked for, and where nothing was: every 15 s, and 10 s to answer. */
export function heartbeatOf({ pingIntervalMs = 15_000, pingTimeoutMs = 10_000 }: Partial<Heartbeat>): Heartbeat {
  return { pingIntervalMs, pingTimeoutMs }
}

/** Asks for a sign of life at each interval; calls `onSilence` once where none comes. Anything heard is a sign. */
export function watchHeartbeat(socket: WebSocket, beat: Heartbeat, onSilence: () => void): void {
  let deadline: NodeJS.Timeout | undefined
  const hear = () => {
    clearTimeout(deadline)
    deadline = undefined
  }
  const judge = (unsentBytes: number) => {
    if (deadline === undefined) return
    // A slow line that still takes our bytes is alive: the ping waits behind them.
    if (socket.bufferedAmount < unsentBytes) return listen()
    onSilence()
  }
  const listen = () => {
    const unsentBytes = socket.bufferedAmount
    // A process that was itself frozen finds the answer already waiting: read once before judging.
    deadline = setTimeout(() => setImmediate(judge, unsentBytes), beat.pingTimeoutMs)
  }
  const ask = setInterval(() => {
    if (deadline !== undefined) return
    socket.ping()
    listen()
  }, beat.pingIntervalMs)

  for (const sign of ['message', 'ping', 'pong'] as const) socket.on(sign, hear)
  socket.once('close', () => {
    clearInterval(ask)
    hear()
  })
}
