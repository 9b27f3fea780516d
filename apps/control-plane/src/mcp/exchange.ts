// One request of the protocol's transport, Streamable HTTP, and its answer, by the reference implementation. It is strict about
// `Accept`, and streams each answer to older clients; what clients may send beside that is decided here. Knows no tool.
import type { McpServer } from '@modelcontextprotocol/server'
import { type Form, formFor } from './accept.ts'

export interface Exchange {
  headers: Readonly<Record<string, string | string[] | undefined>>
  body: unknown
  /** Aborted when the client's connection closes. */
  signal: AbortSignal
  /** A server for this exchange alone. */
  makeServer(): McpServer
  onError(error: Error): void
}

/** From this revision of the protocol on, a request has one message. */
const oneMessageSince = '2025-06-18'
const invalidRequest = -32_600
const invalidParams = -32_602
const notAcceptable = -32_000

/** How many answers the messages need. Notifications and responses need none. */
export const requestsIn = (body: unknown): number =>
  [body].flat().filter((one) => typeof one === 'object' && one !== null && 'method' in one && 'id' in one).length

export async function answer(exchange: Exchange): Promise<Response> {
  const { headers, body } = exchange
  const form = requestsIn(body) === 0 ? 'json' : formFor(headers.accept as string | undefined)
  if (form === undefined)
    return refusal(406, notAcceptable, 'Not Acceptable: send Accept: application/json, text/event-stream')
  if (Array.isArray(body) && body.length === 0)
    return refusal(400, invalidRequest, 'Invalid Request: the batch is empty; send a message')
  const revision = headers['mcp-protocol-version']
  if (Array.isArray(body) && typeof revision === 'string' && revision >= oneMessageSince)
    return refusal(400, invalidRequest, `Invalid Request: send one message in a request, as since ${oneMessageSince}`)
  const wrong = wrongInitialize(body)
  if (wrong) return refusal(200, invalidParams, `Invalid params: ${wrong}`, (body as Message).id)
  return served({ ...exchange, body: withoutNulls(body) }, form)
}

interface Message {
  id?: unknown
  method?: unknown
  params?: Record<string, unknown> | null
}

/** The implementation would call a client's mistake its own internal error. */
function wrongInitialize(body: unknown): string | undefined {
  const { method, id, params } = (Array.isArray(body) ? {} : (body ?? {})) as Message
  if (method !== 'initialize' || id === undefined) return undefined
  if (typeof params !== 'object' || params === null) return '`params` must be an object'
  if (typeof params.protocolVersion !== 'string') return '`params.protocolVersion` must be a string'
  return ['capabilities', 'clientInfo']
    .filter((name) => typeof params[name] !== 'object' || params[name] === null)
    .map((name) => `\`params.${name}\` must be an object`)[0]
}

/** Arguments that are null are left out, as a field of the API is. */
function withoutNulls(body: unknown): unknown {
  if (Array.isArray(body)) return body.map(withoutNulls)
  const { method, params } = (body ?? {}) as Message
  if (method !== 'tools/call' || params?.arguments !== null) return body
  return { ...(body as object), params: { ...params, arguments: {} } }
}

async function served({ headers, body, signal, makeServer, onError }: Exchange, form: Form): Promise<Response> {
  const { createMcpHandler, isLegacyRequest } = await import('@modelcontextprotocol/server')
  const given = new Headers({ accept: 'application/json, text/event-stream', 'content-type': 'application/json' })
  for (const [name, value] of Object.entries(headers)) if (name.startsWith('mcp-')) given.set(name, String(value))
  const request = new Request('http://localhost/mcp', { method: 'POST', headers: given, body: '{}', signal })
  const parsed = { parsedBody: body }
  if (form === 'json' && (await isLegacyRequest(request.clone(), body)))
    return asOneDocument(makeServer(), request, parsed)
  const responseMode = form === 'stream' ? 'sse' : 'auto'
  return createMcpHandler(makeServer, { onerror: onError, responseMode }).fetch(request, parsed)
}

/** The implementation's handler would stream the answer. */
async function asOneDocument(server: McpServer, request: Request, parsed: { parsedBody: unknown }): Promise<Response> {
  const { WebStandardStreamableHTTPServerTransport } = await import('@modelcontextprotocol/server')
  const transport = new WebStandardStreamableHTTPServerTransport({ enableJsonResponse: true })
  const { promise: left, reject } = Promise.withResolvers<never>()
  left.catch(() => undefined)
  const leave = () => reject(request.signal.reason)
  request.signal.addEventListener('abort', leave, { once: true })
  try {
    await server.connect(transport)
    return await Promise.race([transport.handleRequest(request, parsed), left])
  } finally {
    request.signal.removeEventListener('abort', leave)
    await server.close()
  }
}

const refusal = (status: number, code: number, message: string, id: unknown = null): Response =>
  Response.json({ jsonrpc: '2.0', id, error: { code, message } }, { status })
