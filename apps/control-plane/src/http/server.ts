// The HTTP server: how bodies are read, how requests are checked and how answers are written. No word of desktops.

import { randomUUID } from 'node:crypto'
import type { Log } from '@dormouse/process'
import fastify, { type FastifyBaseLogger, type FastifyReply, type FastifyRequest, LogController } from 'fastify'
import { type FastifyZodOpenApiTypeProvider, validatorCompiler } from 'fastify-zod-openapi'
import type { App } from './app.ts'
import { delayContinue } from './expect-continue.ts'
import { type Hold, readBodies, smallBodyBytes } from './json-bodies.ts'
import { handleError } from './problems.ts'
import { respondToBrokenRequest } from './raw-responses.ts'
import { abortStalledResponses } from './stalled-responses.ts'

/** Asked for a path that is no path, which no scope can take: throws where its caller may not even know that. */
export type AuthenticateUnroutable = (request: FastifyRequest, reply: FastifyReply) => Promise<void>

const longestHeadMs = 20_000

export interface ServerOptions {
  log: Log
  /** For how long not a byte of a body, or of an answer, may move. */
  stallMs: number
  /** Addresses and ranges of the proxies that say who their callers are. */
  trustedProxies: string[]
  /** Counts the bytes of bodies before they are kept. */
  hold: Hold
  unroutable: AuthenticateUnroutable
}

/** A server without routes. Its log lines carry the request id that an operation and its commands carry on. */
export function createServer({ log, stallMs, trustedProxies, hold, unroutable }: ServerOptions): App {
  const answerUnroutable = async (error: unknown, request: FastifyRequest, reply: FastifyReply) => {
    const refusal = await unroutable(request, reply).catch((denied: unknown) => denied)
    // No hook runs for it, and its body is not read.
    reply.headers({ 'x-request-id': request.id, connection: 'close' })
    handleError(refusal ?? error, request, reply)
  }
  const headMs = Math.min(stallMs, longestHeadMs)
  const app = fastify({
    loggerInstance: log as FastifyBaseLogger,
    logController: new LogController({ disableRequestLogging: true }),
    // Bodies have no limit as a whole: one that moves may take its time.
    requestTimeout: 0,
    bodyLimit: smallBodyBytes,
    trustProxy: trustedProxies.length > 0 && trustedProxies,
    connectionTimeout: 0,
    keepAliveTimeout: 75_000,
    forceCloseConnections: true,
    return503OnClosing: false,
    genReqId: () => randomUUID(),
    routerOptions: { maxParamLength: 8_192, ignoreTrailingSlash: false },
    frameworkErrors: (error, request, reply) => void answerUnroutable(error, request, reply as never),
    http: {
      // How long the head of a request may take, from its connection or from its first byte on.
      headersTimeout: headMs,
      connectionsCheckingInterval: Math.ceil(headMs / 4),
      // Left alone, node refuses a request without a Host by itself, and says nothing.
      requireHostHeader: false,
      // Below /v1 every request is one that shows a credential; no upgrade passes it by.
      shouldUpgradeCallback: ({ url, headers }) => isWebSocket(headers.upgrade) && !/^\/v1(\/|$)/.test(pathOf(url)),
    },
    clientErrorHandler: (error, socket) => respondToBrokenRequest(error, socket, log),
  }).withTypeProvider<FastifyZodOpenApiTypeProvider>()
  app.setValidatorCompiler(validatorCompiler)
  // Answers are built by our own code from typed rows; checking each again would cost more than making it.
  app.setSerializerCompiler(() => JSON.stringify)
  app.setErrorHandler(handleError)
  app.addHook('onSend', async (request, reply) => void reply.header('x-request-id', request.id))
  readBodies(app as unknown as App, stallMs, hold)
  abortStalledResponses(app as unknown as App, stallMs)
  delayContinue(app as unknown as App)
  return app as unknown as App
}

/** The path of a request, also where its line names the whole URL, as for a proxy. */
export const pathOf = (url = ''): string => url.replace(/^https?:\/\/[^/]*/i, '')

const isWebSocket = (upgrade = ''): boolean => upgrade.toLowerCase() === 'websocket'
