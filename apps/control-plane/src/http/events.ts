// Server-sent events as a response. Knows no event.
import { Readable } from 'node:stream'
import type { FastifyReply } from 'fastify'

/** Sends the blocks as they come, no faster than the client reads. */
export function sendEvents(reply: FastifyReply, blocks: AsyncGenerator<string> | Readable): FastifyReply {
  const stream = blocks instanceof Readable ? blocks : Readable.from(blocks, { objectMode: false, highWaterMark: 1 })
  reply.headers({ 'cache-control': 'no-store', 'x-accel-buffering': 'no' })
  return reply.type('text/event-stream').send(stream)
}
