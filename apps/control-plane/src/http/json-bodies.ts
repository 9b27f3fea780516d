// Request bodies: size limits, and JSON parsing. Knows no route and no credential.
import type { IncomingMessage } from 'node:http'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { noSuchRoute, refuseField } from '@dormouse/contract'
import { Semaphore } from '@dormouse/process'
import type { FastifyRequest } from 'fastify'
import type { App } from './app.ts'
import { BoundedBody } from './bounded-body.ts'
import { lingers } from './early-responses.ts'

/** The API's limit for JSON bodies under /v1. */
export const contractBodyBytes = 2 * 1024 * 1024

/** The default limit: enough for every body outside /v1, also in the longest notation. */
export const smallBodyBytes = 4 * 1024

/** Sets the body limit of this scope's routes; a route can override it. */
export function takeBodiesOf(scope: App, maxBytes: number): void {
  scope.addHook('onRoute', (route) => {
    route.bodyLimit ??= maxBytes
  })
}

/** Counts bytes of a request before they are buffered; throws above the limit. */
export type Hold = (request: IncomingMessage, bytes: number) => void

/** Parses bodies as JSON, whatever the Content-Type; an empty body is `{}`. Aborts a body that stalls for `stallMs`. */
export function readBodies(app: App, stallMs: number, hold: Hold): void {
  app.removeAllContentTypeParsers()
  const bodyOf = (request: FastifyRequest) =>
    new BoundedBody(request.raw, { maxBytes: request.routeOptions.bodyLimit, stallMs })
  app.addContentTypeParser('*', async (request: FastifyRequest) =>
    parseInTurn(await bodyOf(request).bytes((bytes) => hold(request.raw, bytes))),
  )
  ignoreContentType(app)
  skipUnroutedBodies(app)
  checkUnreadBodies(app, async (request) => bodyOf(request).measure())
  drainAfterResponse(app, stallMs)
}

/** fastify would refuse a malformed Content-Type before any parser runs. */
function ignoreContentType(app: App): void {
  app.addHook('onRequest', ({ raw }, _reply, done) => {
    if (raw.headers['content-type'] !== undefined) delete raw.headers['content-type']
    if (raw.headers.host === undefined && raw.httpVersion !== '1.0') refuseField('Host', 'must be sent')
    done()
  })
}

/** fastify would read the body of a request without a route. */
function skipUnroutedBodies(app: App): void {
  app.addHook('preParsing', (request, _reply, payload, done) => {
    if (request.is404) done(noSuchRoute())
    else done(null, payload)
  })
}

/** fastify does not read the body of a GET. The size limit applies to it anyway. */
function checkUnreadBodies(app: App, measured: (request: FastifyRequest) => Promise<void>): void {
  app.addHook('preValidation', (request, _reply, done) => {
    const { method, headers } = request
    const carries = headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0
    if (!carries || (method !== 'GET' && method !== 'HEAD')) return done()
    measured(request).then(() => done(), done)
  })
}

/** How long a client above a limit may go on sending before its connection is closed. */
const hangUpMs = 2_000

/** Reads on after a response that came before the end of its request's body, for a limited time: see `lingers`. */
function drainAfterResponse(app: App, stallMs: number): void {
  app.addHook('onSend', (request, reply, _payload, done) => {
    const isAboveLimit = reply.statusCode === 429 && reply.getHeader('connection') === 'close'
    lingers(request.raw, reply.raw, isAboveLimit ? hangUpMs : stallMs)
    done()
  })
}

/** Parsing a larger body takes milliseconds, in which other requests wait. */
const largeBytes = 64 * 1024
const parsing = new Semaphore(1)

/** Parses large bodies one at a time, so that other work runs in between. */
export async function parseInTurn(body: Buffer): Promise<unknown> {
  if (body.length <= largeBytes) return parseJson(body)
  return parsing.run(async () => {
    await nextTurn()
    return parseJson(body)
  })
}

const utf8 = new TextDecoder('utf-8', { fatal: true })

function parseJson(body: Buffer): unknown {
  if (body.length === 0) return {}
  const { text, value } = parsed(body)
  // No schema has such a field, and it could become the prototype of an object that it is copied into.
  if (polluting.test(text)) refuseField('__proto__', 'is not allowed as a field')
  if (surrogate.test(text)) refuseHalfCharacters(value)
  return value
}

/** What JSON can contain and UTF-8 cannot: it would reach a guest, and the database, as another character. */
const surrogate = /\\u[dD][89a-fA-F]/

const isHalf = (text: unknown): boolean => typeof text === 'string' && !text.isWellFormed()

function refuseHalfCharacters(body: unknown): void {
  // Neither recursion nor a list for each path: bodies may be nested a million times.
  const left: [value: unknown, path: string][] = [[body, '']]
  for (const [value, path] of left) {
    if (isHalf(value))
      refuseField(path.slice(1, 200).toWellFormed() || 'body', 'must not contain half of a surrogate pair')
    if (typeof value !== 'object' || value === null) continue
    for (const [name, inner] of Object.entries(value)) left.push([isHalf(name) ? name : inner, `${path}.${name}`])
  }
}

function parsed(body: Buffer): { text: string; value: unknown } {
  try {
    const text = utf8.decode(body)
    return { text, value: JSON.parse(text) }
  } catch {
    return refuseField('body', 'must be valid JSON')
  }
}

/**
 * `__proto__` as a field's name, each character plain or escaped. In valid JSON this matches nothing else: a string before
 * a colon is a name, and its opening quote follows no backslash.
 */
const polluting = new RegExp(`(?<!\\\\)"${[...'__proto__'].map(plainOrEscaped).join('')}"\\s*:`)

function plainOrEscaped(character: string): string {
  const hex = character.charCodeAt(0).toString(16).padStart(4, '0')
  return `(?:${character}|\\\\u${hex.replaceAll(/[a-f]/g, (digit) => `[${digit}${digit.toUpperCase()}]`)})`
}
