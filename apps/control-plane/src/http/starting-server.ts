// Listens while the database is awaited: health checks get the truth, everybody else gets 503 and Retry-After. Knows no route.
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { refusals } from '@dormouse/contract'
import type { Log } from '@dormouse/process'
import { sendRawProblem } from './raw-responses.ts'
import { pathOf } from './server.ts'

const refusal = {
  status: 503,
  code: 'database_unavailable',
  detail: 'the service waits for its database; retry',
}
const longestHeadMs = 20_000
const longestRequestMs = 60_000

export interface StartingServer {
  /** The port that it listens on, also if the system chose it. */
  port: number
  close(): Promise<void>
}

export interface StartingServerOptions {
  host: string
  port: number
  maxConnections: number
  log: Log
}

export async function openStartingServer({
  host,
  port,
  maxConnections,
  log,
}: StartingServerOptions): Promise<StartingServer> {
  const server = createServer({ headersTimeout: longestHeadMs, requestTimeout: longestRequestMs }, answer)
  server.maxConnections = maxConnections
  server.on('upgrade', (_request, socket) => {
    socket.on('error', () => undefined)
    sendRawProblem(socket, refusal, log)
  })
  server.listen(port, host)
  await once(server, 'listening')
  const address = server.address()
  return {
    port: typeof address === 'object' && address ? address.port : port,
    close: async () => {
      const closed = once(server, 'close')
      server.close()
      server.closeAllConnections()
      await closed
    },
  }
}

const unready = {
  status: 'not ready',
  waits_for: 'database',
  database: false,
  leader: false,
  leads: false,
  outdated: false,
  may_take_over: false,
}
const health: Readonly<Record<string, { status: number; body: object }>> = {
  '/healthz': { status: 200, body: { status: 'ok' } },
  '/readyz': { status: 503, body: unready },
}
const problem = {
  status: refusal.status,
  body: { type: 'about:blank', title: 'Service Unavailable', ...refusal },
  headers: {
    'content-type': 'application/problem+json',
    'retry-after': String(refusals.database_unavailable.retryAfterSecs),
  },
}

function answer(request: IncomingMessage, response: ServerResponse): void {
  // The body is read and dropped, so that its sender gets the answer.
  request.resume()
  const [path = ''] = pathOf(request.url).split('?', 1)
  const found = Object.hasOwn(health, path) ? health[path]! : problem
  const headers = 'headers' in found ? problem.headers : { 'content-type': 'application/json; charset=utf-8' }
  response.writeHead(found.status, { ...headers, 'x-request-id': randomUUID() }).end(JSON.stringify(found.body))
}
