// The HTTP server: how bodies are read, how requests are checked and how answers are written. No word of desktops.

import { randomUUID } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { Refusal, refuse, theOne404 } from '@dormouse/contract'
import type { Log } from '@dormouse/process'
import fastify, {
  type FastifyBaseLogger,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  LogController,
  type preValidationHookHandler,
  type RawServerDefault,
} from 'fastify'
import { validatorCompiler, type ZodTypeProvider } from 'fastify-type-provider-zod'
import { type BodyBounds, BoundedBody, letGo } from './bounded-body.ts'
import { askForBodiesLate } from './expectations.ts'
import { handleError, sendProblem } from './problems.ts'
import { answerBrokenRequest } from './raw-answers.ts'

export type App = FastifyInstance<RawServerDefault, IncomingMessage, ServerResponse, FastifyBaseLogger, ZodTypeProvider>

export const bodyLimitBytes = 2 * 1024 * 1024

/** Asked for a path that is no path, which no scope can take: throws where its caller may not even know that. */
export type UnroutableDoor = (request: FastifyRequest, reply: FastifyReply) => Promise<void>

/** A server without routes, which waits for no body that stands still for so long. Its log lines carry the request id that an operation and its commands carry on. */
export function createServer(log: Log, stallMs: number, unroutable: UnroutableDoor): App {
  const answerUnroutable = async (error: unknown, request: FastifyRequest, reply: FastifyReply) => {
    const refusal = await unroutable(request, reply).catch((denied: unknown) => denied)
    // No hook runs for it, and its body is not read.
    reply.headers({ 'x-request-id': request.id, connection: 'close' })
    handleError(refusal ?? error, request, reply)
  }
  const app = fastify({
    loggerInstance: log as FastifyBaseLogger,
    logController: new LogController({ disableRequestLogging: true }),
    // Bodies have no limit as a whole: one that moves may take its time.
    requestTimeout: 0,
    connectionTimeout: 0,
    keepAliveTimeout: 75_000,
    forceCloseConnections: true,
    return503OnClosing: false,
    genReqId: () => randomUUID(),
    routerOptions: { maxParamLength: 8_192, ignoreTrailingSlash: false },
    frameworkErrors: (error, request, reply) => void answerUnroutable(error, request, reply as never),
    http: {
      // Left alone, node refuses a request without a Host by itself, and says nothing.
      requireHostHeader: false,
      // Below /v1 every request is one that shows a credential; no upgrade passes it by.
      shouldUpgradeCallback: ({ url, headers }) => isWebSocket(headers.upgrade) && !/^\/v1(\/|$)/.test(pathOf(url)),
    },
    clientErrorHandler: (error, socket) => answerBrokenRequest(error, socket, log),
  }).withTypeProvider<ZodTypeProvider>()
  app.setValidatorCompiler(validatorCompiler)
  // Answers are built by our own code from typed rows; checking each again would cost more than making it.
  app.setSerializerCompiler(() => JSON.stringify)
  app.setErrorHandler(handleError)
  app.setNotFoundHandler((_request, reply) => void sendProblem(reply, theOne404()))
  app.addHook('onSend', async (request, reply) => void reply.header('x-request-id', request.id))
  const bounds = { maxBytes: bodyLimitBytes, stallMs }
  readBodiesAsJson(app, bounds)
  boundUnreadBodies(app, bounds)
  hearSendersOut(app as unknown as App)
  askForBodiesLate(app as unknown as App)
  return app as unknown as App
}

/** The path of a request, also where its line names the whole URL, as for a proxy. */
export const pathOf = (url = ''): string => url.replace(/^https?:\/\/[^/]*/i, '')

const isWebSocket = (upgrade = ''): boolean => upgrade.toLowerCase() === 'websocket'

/** JSON whatever the Content-Type says; nothing at all is `{}`. */
function readBodiesAsJson(
  app: FastifyInstance<RawServerDefault, IncomingMessage, ServerResponse, FastifyBaseLogger, ZodTypeProvider>,
  bounds: BodyBounds,
): void {
  app.removeAllContentTypeParsers()
  // One that is not even well-formed would be refused before any parser is asked.
  app.addHook('onRequest', async ({ raw }) => {
    delete raw.headers['content-type']
    if (raw.headers.host === undefined && raw.httpVersion !== '1.0')
      refuse('invalid_request', 'a request names its Host', { field: 'Host' })
  })
  app.addContentTypeParser('*', async ({ raw }: FastifyRequest) =>
    parseJson(await new BoundedBody(raw, bounds).bytes()),
  )
}

/** A body that nobody asked for, as with a GET, is not read by the framework; its bounds are those of others. */
function boundUnreadBodies(
  app: { addHook(name: 'preValidation', hook: preValidationHookHandler): unknown },
  bounds: BodyBounds,
): void {
  app.addHook('preValidation', (request, _reply, done) => {
    const { method, raw, headers } = request
    const carries = headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0
    if (!carries || (method !== 'GET' && method !== 'HEAD')) return done()
    measured(raw, bounds).then(() => done(), done)
  })
}

const measured = async (raw: IncomingMessage, bounds: BodyBounds): Promise<void> =>
  new BoundedBody(raw, bounds).measure()

/** Who is told 413 while still sending would lose the answer with the connection: it stays, and what comes is dropped. */
function hearSendersOut(app: App): void {
  app.addHook('onSend', (request, reply, _payload, done) => {
    if (reply.statusCode === 413 && !request.raw.complete) {
      reply.removeHeader('connection')
      reply.raw.shouldKeepAlive = true
      letGo(request.raw)
    }
    done()
  })
}

const utf8 = new TextDecoder('utf-8', { fatal: true })

function parseJson(body: Buffer): unknown {
  if (body.length === 0) return {}
  try {
    return JSON.parse(utf8.decode(body), refusePollution)
  } catch (error) {
    if (error instanceof Refusal) throw error
    throw new Refusal('invalid_request', 'the body is not valid JSON', { field: 'body' })
  }
}

/** A `__proto__` in a body is never a field of ours. */
function refusePollution(this: unknown, key: string, value: unknown): unknown {
  if (key === '__proto__')
    throw new Refusal('invalid_request', 'the body has a forbidden field', { field: '__proto__' })
  return value
}
