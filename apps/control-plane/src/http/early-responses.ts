// Responses that are sent before the end of their request's body. Many clients read the response only after they have sent
// everything, and lose it with a connection that is closed before (RFC 9112, 9.6). So the rest of the body is read and
// dropped, up to a limit of bytes and time. Knows no route.
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

/** How long a client may go on sending after its response. */
const lingerMs = 10_000
/** How much it may send: more than most routes take, and less than costs other clients anything. */
const lingerBytes = 64 * 1024 * 1024
/** A client that sends nothing for this long has sent everything. */
const quietMs = 1_000

/** Reads and drops the rest of the body; closes the connection at the limit. */
export function drain(raw: IncomingMessage, withinMs: number): void {
  if (raw.complete || raw.destroyed) return
  let left = lingerBytes
  const count = (chunk: Buffer) => {
    left -= chunk.length
    if (left < 0) raw.destroy()
  }
  const timer = setTimeout(() => raw.destroy(), Math.min(lingerMs, withinMs)).unref()
  const stop = () => {
    clearTimeout(timer)
    raw.off('data', count)
  }
  raw.once('close', stop).once('end', stop).on('data', count)
  raw.resume()
}

/** Node's own mark of the last response of a connection, which it closes when that is sent. */
interface Closing {
  _last?: boolean
}

/**
 * To be called before the response is sent. Drains the body, and delays a close that the client or the response requires until
 * the body has ended: `Connection: close`, HTTP/1.0.
 */
export function lingers(asked: IncomingMessage, response: ServerResponse & Closing, withinMs: number): void {
  if (asked.complete || asked.destroyed) return
  drain(asked, withinMs)
  // Before Node's own listener, which closes.
  response.prependOnceListener('finish', () => {
    if (!response._last || asked.complete || asked.destroyed) return
    response._last = false
    asked.once('end', () => asked.socket.destroySoon())
  })
}

/** Reads and drops what follows a request that is not valid HTTP, up to the same limits; then calls back. */
export function drainSocket(socket: Socket, then: () => void): void {
  let left = lingerBytes
  const latest = performance.now() + lingerMs
  const quiet = setTimeout(then, quietMs).unref()
  // The parser's own: it would fail again with each piece.
  socket.removeAllListeners('data')
  socket.on('data', (chunk: Buffer) => {
    left -= chunk.length
    if (left < 0 || performance.now() > latest) socket.destroy()
    else quiet.refresh()
  })
  socket.once('end', then).once('close', () => clearTimeout(quiet))
  socket.resume()
}
