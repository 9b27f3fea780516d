// Opens and closes one WebSocket, for peers, lines and channels. Knows no frames, and never retries.
import type { IncomingMessage } from 'node:http'
import type { SecureContextOptions } from 'node:tls'
import { WebSocket } from 'ws'
import { DialRefused } from './errors.ts'

export interface DialTarget {
  /** ws:// or wss:// address. */
  url: string
  /** Called for each attempt, so that a short-lived credential is fresh. */
  headers?: () => Promise<Record<string, string>> | Record<string, string>
  /** Subprotocols; the other side chooses one. */
  protocols?: readonly string[]
  tls?: Pick<SecureContextOptions, 'ca' | 'cert' | 'key'>
  handshakeTimeoutMs?: number
  signal?: AbortSignal
}

export const defaultMaxFrameBytes = 4 * 1024 * 1024
export const defaultHandshakeTimeoutMs = 10_000

const closeGraceMs = 1_000
const maxProblemBytes = 64 * 1024
const maxDetailChars = 500

/**
 * Opens a WebSocket and passes it to `wrap` in the same tick, so that no message is missed. Returns what `wrap` returns.
 * Rejects with DialRefused, with what `wrap` throws, or with the signal's reason.
 */
export async function openSocket<T>(
  target: DialTarget,
  maxPayload: number,
  wrap: (socket: WebSocket) => T | Promise<T>,
): Promise<T> {
  const headers = await target.headers?.()
  target.signal?.throwIfAborted()
  const { handshakeTimeoutMs = defaultHandshakeTimeoutMs } = target
  const { promise, resolve, reject } = Promise.withResolvers<T>()
  const socket = new WebSocket(target.url, [...(target.protocols ?? [])], {
    ...target.tls,
    headers,
    maxPayload,
    perMessageDeflate: false,
    handshakeTimeout: handshakeTimeoutMs,
    // Masks protect proxies from scripts in browsers. No browser dials here, and a mask of zeros costs nothing.
    generateMask: (mask) => void mask.fill(0),
  })
  const abandon = () => {
    reject(target.signal?.reason)
    socket.terminate()
  }
  target.signal?.addEventListener('abort', abandon, { once: true })
  // The option above counts from the last byte. A server that sends interim responses forever would hold the attempt.
  const late = setTimeout(() => {
    reject(new DialRefused(`no answer to the handshake within ${handshakeTimeoutMs} ms`))
    socket.terminate()
  }, handshakeTimeoutMs)
  socket.on('error', (cause) => reject(new DialRefused(cause.message || 'no connection', { cause })))
  socket.on('unexpected-response', (_request, response) => {
    clearTimeout(late)
    refusalOf(response, handshakeTimeoutMs)
      .then(reject, reject)
      .finally(() => socket.terminate())
  })
  socket.on('open', () => {
    clearTimeout(late)
    try {
      resolve(wrap(socket))
    } catch (error) {
      reject(error)
      socket.terminate()
    }
  })
  return promise.finally(() => {
    clearTimeout(late)
    target.signal?.removeEventListener('abort', abandon)
  })
}

/** Sockets that are being closed: each sends one close frame, however often it is closed. */
const closing = new WeakMap<WebSocket, Promise<void>>()

/** Sends a close frame with code and reason, and terminates the socket if the other side does not respond within a second. */
export function closeSocket(socket: WebSocket, code: number, reason: string): Promise<void> {
  const closed = closing.get(socket) ?? closeGracefully(socket, code, reason)
  closing.set(socket, closed)
  return closed
}

async function closeGracefully(socket: WebSocket, code: number, reason: string): Promise<void> {
  if (socket.readyState === socket.CLOSED) return
  const { promise, resolve } = Promise.withResolvers<void>()
  const terminate = setTimeout(() => socket.terminate(), closeGraceMs)
  socket.once('close', () => {
    clearTimeout(terminate)
    resolve()
  })
  socket.close(code, fitCloseReason(reason))
  return promise
}

/** A close frame holds at most 123 bytes of reason. */
export function fitCloseReason(reason: string): string {
  return Buffer.from(reason)
    .subarray(0, 123)
    .toString()
    .replace(/\uFFFD$/, '')
}

async function refusalOf(response: IncomingMessage, withinMs: number): Promise<DialRefused> {
  const status = response.statusCode ?? 0
  // A body that never ends must not delay the next attempt.
  const late = setTimeout(() => response.destroy(), withinMs)
  const detail = await problemDetail(response).finally(() => clearTimeout(late))
  return new DialRefused(`answered ${status}${detail ? `: ${detail}` : ''}`, { status, detail })
}

async function problemDetail(response: IncomingMessage): Promise<string | undefined> {
  try {
    let text = ''
    for await (const chunk of response.setEncoding('utf8')) {
      text += chunk
      if (text.length > maxProblemBytes) return undefined
    }
    const { detail } = JSON.parse(text) as { detail?: unknown }
    return typeof detail === 'string' ? detail.slice(0, maxDetailChars).toWellFormed() : undefined
  } catch {
    // The status is enough: a body that is no problem document adds nothing.
    return undefined
  }
}
