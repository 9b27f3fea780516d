// Desktops as tools for agents, over HTTP. Each tool calls this service's own API with the agent's credential, so that the same
// rules, limits and records hold as for every other client.
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import type { ReadableStream } from 'node:stream/web'
import { createClient } from '@dormouse/client'
import { id, refuse, refuseField, type WakeWish } from '@dormouse/contract'
import { defaultGrants, type Grant, grants, parseGrants } from '@dormouse/mcp/grants'
import type { FastifyRequest } from 'fastify'
import { z } from 'zod'
import type { App } from '../http/app.ts'
import type { InFlightBytes } from '../http/in-flight-bytes.ts'
import type { Readiness } from '../leadership/readiness.ts'
import { customer } from '../principals/authentication.ts'
import { countAnswers } from './counted-answers.ts'
import { answer, requestsIn } from './exchange.ts'

const query = z.object({
  desktop: id.optional().describe('The only desktop that the agent can use'),
  grants: z
    .string()
    .max(100)
    .optional()
    .describe(`What the agent may do: some of ${grants.join(', ')}`),
})

/**
 * What each answer counts from the start on, so that a request is refused before it is carried out. The number of requests bounds
 * single ones, and most answers are short. A batch is many calls at once, and counts as if each read a file.
 */
const reservedBytes = { single: 16 * 1024, inBatch: 64 * 1024 }

export interface McpParts {
  readiness: Readiness
  heldBytes: InFlightBytes
}

/** In a scope of customers. */
export function mcpRoutes(app: App, { readiness, heldBytes }: McpParts): void {
  app.post(
    '/mcp',
    { schema: { hide: true, right: null, querystring: query, body: z.unknown() } },
    async (request, reply) => {
      // Most tools change something. A proxy sends the request to the leader then.
      if (!readiness.leads) refuse('not_leader')
      const each = Array.isArray(request.body) ? reservedBytes.inBatch : reservedBytes.single
      heldBytes.hold(request.raw, requestsIn(request.body) * each)
      // Loaded when it is first needed: it would take as long as the rest of a start.
      const { createMcpServer } = await import('@dormouse/mcp')
      const clientFor = (wake?: WakeWish) =>
        createClient({ baseUrl: ownAddress(app), apiKey: credentialOf(request), ...(wake && { wake }) })
      const { can, scope } = customer(request)
      const given = {
        clientFor,
        grants: grantsOf(request.query.grants),
        rights: can ?? undefined,
        desktopId: request.query.desktop ?? scope?.desktopId,
      }
      const left = new AbortController()
      reply.raw.once('close', () => left.abort())
      const hold = (bytes: number) => {
        // Nobody is left to read it, and nothing would release it.
        if (!left.signal.aborted) heldBytes.hold(request.raw, Math.max(0, bytes - each))
      }
      const response = await answer({
        headers: request.headers,
        body: request.body,
        signal: left.signal,
        makeServer: () => countAnswers(createMcpServer(given), hold),
        onError: (err) => request.log.debug({ err }, 'an agent’s request was refused'),
      })
      const headers = [...response.headers].filter(([name]) => name !== 'connection')
      // Whether the connection stays open is the server's and the client's to decide: `Connection: close` must end it.
      reply.code(response.status).headers(Object.fromEntries(headers))
      // An accepted notification has no body, not even `null`.
      return response.body ? reply.send(Readable.fromWeb(response.body as ReadableStream)) : reply.send()
    },
  )
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
