// Problems for sockets without a response object: invalid HTTP, and refused upgrades. Written to the socket directly, with
// the same headers and body as any other problem. Knows no route.
import { randomUUID } from 'node:crypto'
import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { type RefusalCode, refusals } from '@dormouse/contract'
import type { Log } from '@dormouse/process'
import { drainSocket } from './early-responses.ts'

export interface RawProblem {
  status: number
  detail: string
  /** By default derived from the status. */
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

/** How long the client may take to read it. */
const lingerMs = 10_000

/** Sends a problem and closes the connection. */
export function sendRawProblem(socket: Duplex, problem: RawProblem, log: Log): void {
  if (socket.destroyed) return
  const late = setTimeout(() => socket.destroy(), lingerMs).unref()
  socket.once('close', () => clearTimeout(late))
  socket.end(rawProblem(problem, log), () => socket.destroy())
}

function rawProblem(problem: RawProblem, log: Log): string {
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
  return `HTTP/1.1 ${status} ${title}\r\n${lines.join('')}\r\n${body}`
}

const transferEncoding = 'HPE_INVALID_TRANSFER_ENCODING'
const problems: Readonly<Record<string, RawProblem>> = {
  HPE_HEADER_OVERFLOW: {
    status: 431,
    detail: 'the URL or the request headers are too large; send shorter or fewer ones',
  },
  ERR_HTTP_REQUEST_TIMEOUT: {
    status: 408,
    detail: 'timed out waiting for the request headers; send the request again',
  },
  [transferEncoding]: {
    status: 400,
    detail: 'Transfer-Encoding must be chunked, or left out with Content-Length; send the body as it is',
  },
}

/** Responds to bytes that are not valid HTTP and so never become a request, or end one before its body has come. */
export function respondToBrokenRequest(error: Error & { code?: string }, socket: Socket, log: Log): void {
  if (error.code === 'ECONNRESET' || !socket.writable || isAnswering(socket)) return void socket.destroy()
  const response = responseOf(socket)
  if (response && error.code === transferEncoding) {
    // Its headers were valid, and the response to them is on its way: no body in that coding is ever read.
    response.shouldKeepAlive = false
    const close = () => socket.destroySoon()
    drainSocket(socket, () => (response.writableFinished ? close() : response.once('finish', close)))
    return
  }
  const problem = problems[error.code ?? ''] ?? { status: 400, detail: 'the request is not valid HTTP' }
  // The end of what is written: whatever its request would be answered would be a second response.
  socket.end(rawProblem(problem, log))
  // Without a parser, only silence shows that the client has sent everything.
  drainSocket(socket, () => socket.destroySoon())
}

/** Node's own mark of the request whose response is due on the socket. */
const responseOf = (socket: Socket & { _httpMessage?: ServerResponse<IncomingMessage> | null }) =>
  socket._httpMessage ?? undefined

/** Whether an earlier request on the socket still gets its response: a problem now would be read as part of it. */
function isAnswering(socket: Socket): boolean {
  const response = responseOf(socket)
  return response !== undefined && (response.headersSent || response.req.complete)
}
