// What routes read from requests besides path and body: idempotency key, `wait`, whether the call may wake its desktop, and
// whether the client disconnected.
import { createHash } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { flag, refuseField, type WakeWish, wakeWish, wakeWishHeader } from '@dormouse/contract'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'

/** `?wait=` is exactly `true` or `false`, once. */
export const waitQuery = z.object({
  wait: flag
    .optional()
    .describe('`true`: respond when the operation settles, or after 120 s with the operation in progress'),
})

/** The one Idempotency-Key of a request, or null. Any ASCII, 1 to 255 characters; anything else is 400. */
export function idempotencyKey(request: FastifyRequest): string | null {
  const name = 'Idempotency-Key'
  const bad = (why: string): never => refuseField(name, why)
  // Node joins repeated headers with a comma; only the raw list distinguishes one from two.
  const values = request.raw.rawHeaders.filter(
    (_, i, all) => i % 2 === 1 && all[i - 1]!.toLowerCase() === 'idempotency-key',
  )
  if (values.length === 0) return null
  if (values.length > 1) return bad('must be sent once')
  const key = values[0]!
  if (/[^\t\x20-\x7e]/.test(key)) return bad('must be ASCII')
  if (key.length < 1 || key.length > 255) return bad('must have 1 to 255 characters')
  return key
}

/** What the call itself says of waking its desktop. Anything else than its values is 400. */
export function wakeWishOf(headers: IncomingHttpHeaders): WakeWish | undefined {
  const given = headers[wakeWishHeader.toLowerCase()]
  if (given === undefined) return undefined
  const wish = wakeWish.safeParse(given)
  return wish.success ? wish.data : refuseField(wakeWishHeader, 'must be `allow` or `never`')
}

/** Compares repeated requests. The order of fields does not matter, and null equals omitted. */
export function fingerprint(params: Record<string, unknown>): Buffer {
  const given = Object.entries(params).filter(([, value]) => value !== null && value !== undefined)
  return createHash('sha256').update(JSON.stringify(given.sort(), inOrder)).digest()
}

/** Also in maps, such as labels: some languages write those in another order each time. */
const inOrder = (_: string, value: unknown): unknown =>
  value === null || typeof value !== 'object' || Array.isArray(value)
    ? value
    : Object.fromEntries(Object.entries(value).sort())

/** Aborted when the client disconnects before its response. */
export function callerGone(request: FastifyRequest, reply: FastifyReply): AbortSignal {
  const gone = new AbortController()
  whenOver(request, reply, () => {
    if (!reply.raw.writableFinished) gone.abort()
  })
  // Disconnected before this was called: no event follows.
  if (reply.raw.destroyed || (request.raw.destroyed && !request.raw.complete)) gone.abort()
  return gone.signal
}

/** Calls back when the response was sent, or its connection has closed. */
export function whenOver(request: FastifyRequest, reply: FastifyReply, act: () => void): void {
  const { socket } = request.raw
  const onClose = () => {
    socket.off('close', onClose)
    reply.raw.off('close', onClose)
    act()
  }
  reply.raw.once('close', onClose)
  // A pipelined response that waits behind others gets no close event.
  socket.once('close', onClose)
}
