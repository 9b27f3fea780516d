// Desktops as tools for agents, over HTTP. Each tool calls this service's own API with the agent's credential, so that the same
// rules, limits and records hold as for every other client.
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import type { ReadableStream } from 'node:stream/web'
import { createClient } from '@dormouse/client'
import { id, refuse, refuseField } from '@dormouse/contract'
import { defaultGrants, type Grant, grants, parseGrants } from '@dormouse/mcp/grants'
import type { FastifyRequest } from 'fastify'
import { z } from 'zod'
import type { App } from '../http/app.ts'
import type { Readiness } from '../leadership/readiness.ts'

const query = z.object({
  desktop: id.optional().describe('The only desktop that the agent can use'),
  grants: z
    .string()
    .max(100)
    .optional()
    .describe(`What the agent may do: some of ${grants.join(', ')}`),
})

/** In a scope of customers. */
export function mcpRoutes(app: App, { readiness }: { readiness: Readiness }): void {
  app.post('/mcp', { schema: { hide: true, querystring: query, body: z.unknown() } }, async (request, reply) => {
    // Most tools change something. A proxy sends the request to the leader then.
    if (!readiness.leads) refuse('not_leader')
    // Loaded when it is first needed: it would take as long as the rest of a start.
    const [{ createMcpServer }, { createMcpHandler }] = await Promise.all([
      import('@dormouse/mcp'),
      import('@modelcontextprotocol/server'),
    ])
    const client = createClient({ baseUrl: ownAddress(app), apiKey: credentialOf(request) })
    const given = { client, grants: grantsOf(request.query.grants), desktopId: request.query.desktop }
    const handler = createMcpHandler(() => createMcpServer(given), {
      onerror: (err) => request.log.debug({ err }, 'an agent’s request was refused'),
    })
    const response = await handler.fetch(asWebRequest(request), { parsedBody: request.body })
    reply.code(response.status).headers(Object.fromEntries(response.headers))
    return reply.send(response.body && Readable.fromWeb(response.body as ReadableStream))
  })
}

function grantsOf(text: string | undefined): readonly Grant[] {
  try {
    return text === undefined ? defaultGrants : parseGrants(text)
  } catch (error) {
    return refuseField('grants', (error as Error).message)
  }
}

/** The credential that was just verified. */
const credentialOf = ({ headers }: FastifyRequest): string => headers.authorization!.replace(/^bearer +/i, '')

function ownAddress(app: App): string {
  const { address, family, port } = app.server.address() as AddressInfo
  const isEverywhere = address === '0.0.0.0' || address === '::'
  const host = isEverywhere ? '127.0.0.1' : family === 'IPv6' ? `[${address}]` : address
  return `http://${host}:${port}`
}

/** Aborted when the agent's connection closes. */
function asWebRequest({ raw, url }: FastifyRequest): Request {
  const closed = new AbortController()
  raw.socket.once('close', () => closed.abort())
  const headers = new Headers({ accept: 'application/json, text/event-stream', 'content-type': 'application/json' })
  for (const [name, value] of Object.entries(raw.headers))
    if (name.startsWith('mcp-') || name === 'accept') headers.set(name, String(value))
  return new Request(`http://localhost${url}`, { method: 'POST', headers, body: '{}', signal: closed.signal })
}
