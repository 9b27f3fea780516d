// Detects a socket whose other end is gone without closing it: power loss, a cable, a frozen process. Knows nothing of what
// the socket carries.
import type { WebSocket } from 'ws'

export interface Heartbeat {
  /** How often a ping is sent. */
  pingIntervalMs: number
  /** How long the other side may stay silent after a ping. */
  pingTimeoutMs: number
}

/** The given values, or the defaults: a ping every 15 s, and 10 s to respond. */
export function heartbeatOf({ pingIntervalMs = 15_000, pingTimeoutMs = 10_000 }: Partial<Heartbeat>): Heartbeat {
  return { pingIntervalMs, pingTimeoutMs }
}

/** Pings at each interval, and calls `onSilence` once if nothing arrives. Anything received counts as a response. */
export function watchHeartbeat(socket: WebSocket, beat: Heartbeat, onSilence: () => void): void {
  let deadline: NodeJS.Timeout | undefined
  const hear = () => {
    clearTimeout(deadline)
    deadline = undefined
  }
  const judge = (unsentBytes: number) => {
    if (deadline === undefined) return
    // A slow connection that still takes our bytes is alive: the ping waits behind them.
    if (socket.bufferedAmount < unsentBytes) return listen()
    onSilence()
  }
  const listen = () => {
    const unsentBytes = socket.bufferedAmount
    // If our own process was frozen, the response is already waiting: read once before judging.
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
