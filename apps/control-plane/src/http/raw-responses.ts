// Problems for those who have no response object: what is not HTTP, and upgrades that are refused. Written to the socket by
// hand, and as whole as any other answer. Knows no route.
import { randomUUID } from 'node:crypto'
import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { type RefusalCode, refusals } from '@dormouse/contract'
import type { Log } from '@dormouse/process'

export interface RawProblem {
  status: number
  detail: string
  /** By default the one that its status stands for here. */
  code?: string
  headers?: Record<string, string>
}

const codes: Readonly<Record<number, RefusalCode>> = {
  400: 'invalid_request',
  408: 'invalid_request',
  401: 'unauthenticated',
  403: 'forbidden',
  404: 'not_found',
  409: 'conflict',
  429: 'rate_limited',
  431: 'invalid_request',
  503: 'stopping',
}

/** How long the other end may take to hear it. */
const lingerMs = 10_000

/** Answers with a problem and ends the connection. */
export function sendRawProblem(socket: Duplex, problem: RawProblem, log: Log): void {
  if (socket.destroyed) return
  const { status, detail, headers, code = codes[status] ?? 'internal' } = problem
  const [title, id] = [STATUS_CODES[status] ?? 'Error', randomUUID()]
  const row: { status: number; retryAfterSecs?: number } | undefined = refusals[code as RefusalCode]
  const body = JSON.stringify({ type: 'about:blank', title, status, detail, code })
  const lines = Object.entries({
    ...(row?.retryAfterSecs && { 'retry-after': String(row.retryAfterSecs) }),
    ...(status === 401 && { 'www-authenticate': 'Bearer' }),
    ...headers,
    'x-request-id': id,
    'content-type': 'application/problem+json',
    'content-length': String(Buffer.byteLength(body)),
    connection: 'close',
  }).map(([name, value]) => `${name}: ${value}\r\n`)
  log.debug({ requestId: id, status, detail }, 'refused before it was a request')
  const late = setTimeout(() => socket.destroy(), lingerMs).unref()
  socket.once('close', () => clearTimeout(late))
  socket.end(`HTTP/1.1 ${status} ${title}\r\n${lines.join('')}\r\n${body}`, () => socket.destroy())
}

const problems: Readonly<Record<string, RawProblem>> = {
  HPE_HEADER_OVERFLOW: { status: 431, detail: 'the head of the request is too large' },
  ERR_HTTP_REQUEST_TIMEOUT: { status: 408, detail: 'the head of the request did not come in time; send it again' },
}

/** Answers what is not HTTP at all and so never becomes a request. */
export function respondToBrokenRequest(error: Error & { code?: string }, socket: Socket, log: Log): void {
  if (error.code === 'ECONNRESET' || !socket.writable || isAnswering(socket)) return void socket.destroy()
  sendRawProblem(socket, problems[error.code ?? ''] ?? { status: 400, detail: 'the request is not valid HTTP' }, log)
}

/** A whole request came before the broken one: what is said now would be taken for its answer, or stand in the midst of it. */
function isAnswering(socket: Socket & { _httpMessage?: ServerResponse<IncomingMessage> }): boolean {
  const response = socket._httpMessage
  return response !== undefined && response !== null && (response.headersSent || response.req.complete)
}
