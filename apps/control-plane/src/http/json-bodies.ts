// The bodies of requests: how much of one a route takes, and JSON from its bytes. Knows no route and no credential.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { notFound, refuseField } from '@dormouse/contract'
import type { FastifyRequest } from 'fastify'
import type { App } from './app.ts'
import { BoundedBody, letGo } from './bounded-body.ts'

/** What the contract promises of every route under /v1 that takes JSON. */
export const contractBodyBytes = 2 * 1024 * 1024

/** What a route takes whose scope says nothing else: enough for every body outside /v1, also in the longest notation. */
export const smallBodyBytes = 4 * 1024

/** Routes of this scope take so much, where one does not say otherwise itself. */
export function takeBodiesOf(scope: App, maxBytes: number): void {
  scope.addHook('onRoute', (route) => {
    route.bodyLimit ??= maxBytes
  })
}

/** Counts so many bytes of a request before they are kept; throws where they are too many. */
export type Hold = (request: IncomingMessage, bytes: number) => void

/** Reads JSON whatever the Content-Type says; nothing at all is `{}`. Gives up a body that makes no progress for so long. */
export function readBodies(app: App, stallMs: number, hold: Hold): void {
  app.removeAllContentTypeParsers()
  const bodyOf = (request: FastifyRequest) =>
    new BoundedBody(request.raw, { maxBytes: request.routeOptions.bodyLimit, stallMs })
  app.addContentTypeParser('*', async (request: FastifyRequest) =>
    parseInTurn(await bodyOf(request).bytes((bytes) => hold(request.raw, bytes))),
  )
  nameNoType(app)
  leaveUnrouted(app)
  measureUnread(app, async (request) => bodyOf(request).measure())
  hearSendersOut(app, stallMs)
}

/** A Content-Type that is not even well-formed would be refused before any parser is asked. */
function nameNoType(app: App): void {
  app.addHook('onRequest', async ({ raw }) => {
    delete raw.headers['content-type']
    if (raw.headers.host === undefined && raw.httpVersion !== '1.0') refuseField('Host', 'must be sent')
  })
}

/** The framework would read the body of a request that leads nowhere. */
function leaveUnrouted(app: App): void {
  app.addHook('preParsing', (request, _reply, payload, done) => {
    if (request.is404) done(notFound())
    else done(null, payload)
  })
}

/** A body that nobody asked for, as with a GET, is not read by the framework; its bounds are those of others. */
function measureUnread(app: App, measured: (request: FastifyRequest) => Promise<void>): void {
  app.addHook('preValidation', (request, _reply, done) => {
    const { method, headers } = request
    const carries = headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0
    if (!carries || (method !== 'GET' && method !== 'HEAD')) return done()
    measured(request).then(() => done(), done)
  })
}

/** How long one may go on sending who is hung up on. */
const hangUpMs = 2_000

/**
 * Who is answered while still sending is heard for a little longer, and for no longer than that. Who is told 413, or that
 * too much is under way, would lose the answer with the connection, so it stays until the body has been heard, and longer
 * where nobody asked for its end.
 */
function hearSendersOut(app: App, stallMs: number): void {
  app.addHook('onSend', (request, reply, _payload, done) => {
    const { raw } = request
    if (raw.complete) return done()
    const hangsUp = reply.statusCode === 429 && reply.getHeader('connection') === 'close'
    if (hangsUp || reply.statusCode === 413) {
      reply.removeHeader('connection')
      reply.raw.shouldKeepAlive = true
      if (hangsUp || /\bclose\b/i.test(request.headers.connection ?? '')) endWhenHeard(raw, reply.raw)
    }
    letGo(raw, hangsUp ? hangUpMs : stallMs)
    done()
  })
}

/** Ends the connection once it was answered and all that was sent has been heard. */
function endWhenHeard(asked: IncomingMessage, answer: ServerResponse): void {
  const end = () => asked.socket.destroySoon()
  answer.once('finish', () => (asked.complete ? end() : asked.once('end', end)))
}

/** To parse a larger one takes milliseconds, which those who wait behind it notice. */
const largeBytes = 64 * 1024
let lastTurn: Promise<unknown> = Promise.resolve()

/** Large bodies one at a time, and everything else that is due between them. */
export async function parseInTurn(body: Buffer): Promise<unknown> {
  if (body.length <= largeBytes) return parseJson(body)
  const turn = lastTurn.then(() => nextTurn())
  lastTurn = turn
  await turn
  return parseJson(body)
}

const utf8 = new TextDecoder('utf-8', { fatal: true })

function parseJson(body: Buffer): unknown {
  if (body.length === 0) return {}
  const { text, value } = parsed(body)
  // A field of that name is never one of ours, and could become the prototype of what it is copied into.
  if (polluting.test(text)) refuseField('__proto__', 'is not allowed as a field')
  return value
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
 * `__proto__` as the name of a field, each character plain or escaped. In a text that is JSON this finds nothing else: a
 * string that is followed by a colon is a name, and the quote that begins it follows no backslash.
 */
const polluting = new RegExp(`(?<!\\\\)"${[...'__proto__'].map(plainOrEscaped).join('')}"\\s*:`)

function plainOrEscaped(character: string): string {
  const hex = character.charCodeAt(0).toString(16).padStart(4, '0')
  return `(?:${character}|\\\\u${hex.replaceAll(/[a-f]/g, (digit) => `[${digit}${digit.toUpperCase()}]`)})`
}
