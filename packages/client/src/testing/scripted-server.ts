// A real HTTP server for tests of clients: it responds by a script and keeps the requests.
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface SeenRequest {
  method: string
  path: string
  query: URLSearchParams
  headers: IncomingHttpHeaders
  body: Buffer
}

export interface Answer {
  status?: number
  headers?: Record<string, string>
  /** Sent as it is, or as JSON if it is an object. */
  body?: string | Uint8Array | object
}

/** `reset` drops the connection, `hang` never answers, `truncate` drops it in the middle of the body. */
export type Reply = Answer | 'reset' | 'hang' | 'truncate'

export type Script = (request: SeenRequest, turn: number) => Reply | Promise<Reply>

export interface ScriptedServer extends AsyncDisposable {
  baseUrl: string
  seen: SeenRequest[]
}

/** Serves on loopback until disposed; `turn` counts requests from 0. */
export async function serve(script: Script): Promise<ScriptedServer> {
  const seen: SeenRequest[] = []
  const server = createServer(async (incoming, outgoing) => {
    const request = await readRequest(incoming)
    seen.push(request)
    const reply = await Promise.resolve(script(request, seen.length - 1)).catch((error: unknown) => {
      // A script that waits for what never comes is no failure once its client has gone.
      if (outgoing.destroyed) return 'hang' as const
      throw error
    })
    send(outgoing, reply)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    seen,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

/** A problem body as the service sends them. */
export function problem(status: number, code: string, detail: string, extra: object = {}): Answer {
  const body = { type: 'about:blank', title: 'Problem', status, detail, code, ...extra }
  return { status, headers: { 'content-type': 'application/problem+json' }, body }
}

async function readRequest(incoming: IncomingMessage): Promise<SeenRequest> {
  const { pathname, searchParams } = new URL(incoming.url ?? '/', 'http://localhost')
  const body = Buffer.concat(await Array.fromAsync(incoming as AsyncIterable<Buffer>))
  return { method: incoming.method ?? '', path: pathname, query: searchParams, headers: incoming.headers, body }
}

function send(outgoing: ServerResponse, reply: Reply): void {
  if (reply === 'hang') return
  if (reply === 'reset') return void outgoing.destroy()
  if (reply === 'truncate') {
    outgoing.writeHead(200, { 'content-length': '100' })
    outgoing.write('{"half":', () => outgoing.destroy())
    return
  }
  const { status = 200, headers = {}, body = '' } = reply
  const raw = typeof body === 'string' || body instanceof Uint8Array
  outgoing.writeHead(status, { ...(raw ? {} : { 'content-type': 'application/json' }), ...headers })
  outgoing.end(raw ? body : JSON.stringify(body))
}
