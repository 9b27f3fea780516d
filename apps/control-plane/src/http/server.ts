// The HTTP server: limits, body parsing, validation and error handling. Knows nothing of desktops.
import { randomUUID } from 'node:crypto'
import type { Log } from '@dormouse/process'
import fastify, { type FastifyBaseLogger, type FastifyReply, type FastifyRequest, LogController } from 'fastify'
import { type FastifyZodOpenApiTypeProvider, validatorCompiler } from 'fastify-zod-openapi'
import type { App } from './app.ts'
import { refuseCodedBodies } from './coded-bodies.ts'
import { lingers } from './early-responses.ts'
import { delayContinue } from './expect-continue.ts'
import { type Hold, readBodies, smallBodyBytes } from './json-bodies.ts'
import { handleError } from './problems.ts'
import { respondToBrokenRequest } from './raw-responses.ts'
import { abortStalledResponses } from './stalled-responses.ts'

/** Authenticates a request whose path is malformed, which no scope can route; throws a refusal if it may not pass. */
export type AuthenticateUnroutable = (request: FastifyRequest, reply: FastifyReply) => Promise<void>

const longestHeadMs = 20_000

export interface ServerOptions {
  log: Log
  /** Abort a request body or response that makes no progress for this long. */
  stallMs: number
  /** Addresses and ranges of the proxies whose `X-Forwarded-For` counts. */
  trustedProxies: string[]
  /** Counts the bytes of bodies before they are buffered. */
  hold: Hold
  unroutable: AuthenticateUnroutable
  /** Whether this URL below /v1 takes upgrades, and authenticates them. */
  upgrades(url: string): boolean
}

/** A server without routes. Its log lines carry the request id, as do the operation and its commands. */
export function createServer({ log, stallMs, trustedProxies, hold, unroutable, upgrades }: ServerOptions): App {
  const answerUnroutable = async (error: unknown, request: FastifyRequest, reply: FastifyReply) => {
    const refusal = await unroutable(request, reply).catch((denied: unknown) => denied)
    // No hook runs for this request, and its body is not read.
    lingers(request.raw, reply.raw, stallMs)
    reply.headers({ 'x-request-id': request.id, connection: 'close' })
    handleError(refusal ?? error, request, reply)
  }
  const headMs = Math.min(stallMs, longestHeadMs)
  const app = fastify({
    loggerInstance: log as FastifyBaseLogger,
    logController: new LogController({ disableRequestLogging: true }),
    // A body that makes progress has no total timeout.
    requestTimeout: 0,
    bodyLimit: smallBodyBytes,
    trustProxy: trustedProxies.length > 0 && trustedProxies,
    connectionTimeout: 0,
    keepAliveTimeout: 75_000,
    forceCloseConnections: true,
    return503OnClosing: false,
    genReqId: () => randomUUID(),
    // The id of the request is in every line already, and a log for each request would cost more than the line.
    childLoggerFactory: (logger) => logger,
    routerOptions: { maxParamLength: 8_192, ignoreTrailingSlash: false },
    frameworkErrors: (error, request, reply) => void answerUnroutable(error, request, reply as never),
    http: {
      // Timeout of the request headers, from the connection or from their first byte on.
      headersTimeout: headMs,
      connectionsCheckingInterval: Math.ceil(headMs / 4),
      // By default Node refuses a request without Host with an empty response.
      requireHostHeader: false,
      // No upgrades below /v1 but if one authenticates: they would bypass it.
      shouldUpgradeCallback: ({ url = '', headers }) =>
        isWebSocket(headers.upgrade) && (!/^\/v1(\/|$)/.test(pathOf(url)) || upgrades(url)),
    },
    clientErrorHandler: (error, socket) => respondToBrokenRequest(error, socket, log),
  }).withTypeProvider<FastifyZodOpenApiTypeProvider>()
  app.setValidatorCompiler(validatorCompiler)
  // Responses are built from typed rows; validating each again would cost more than building it.
  app.setSerializerCompiler(() => JSON.stringify)
  app.setErrorHandler(handleError)
  app.addHook('onSend', (request, reply, _payload, done) => {
    reply.header('x-request-id', request.id)
    done()
  })
  readBodies(app as unknown as App, stallMs, hold)
  refuseCodedBodies(app as unknown as App)
  abortStalledResponses(app as unknown as App, stallMs)
  delayContinue(app as unknown as App)
  return app as unknown as App
}

/** The path of a request, even if the request line has a whole URL, as for a proxy. */
export const pathOf = (url = ''): string => url.replace(/^https?:\/\/[^/]*/i, '')

const isWebSocket = (upgrade = ''): boolean => upgrade.toLowerCase() === 'websocket'
