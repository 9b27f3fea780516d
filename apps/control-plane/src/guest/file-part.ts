// Part of a file: how a host sends it, a head with the range and then the bytes, and how a client gets it.
import { Readable } from 'node:stream'
import { type RangeHead, rangeHead, rangeHeadMaxBytes, refusalWithCause, refuse } from '@dormouse/contract'
import type { FastifyReply } from 'fastify'

export interface FilePart {
  head: RangeHead
  /** If the head has a length, fails if fewer or more bytes come. */
  bytes: Readable
}

const lengthBytes = 2

/** Reads the head, and waits for the first byte. */
export async function filePart(pieces: AsyncGenerator<Buffer>): Promise<FilePart> {
  let received: Buffer = Buffer.alloc(0)
  for (;;) {
    const end = received.length < lengthBytes ? undefined : lengthBytes + received.readUInt16BE()
    if (end !== undefined && received.length >= end) {
      const head = parsed(received.subarray(lengthBytes, end))
      const length = head.whole ? Number.POSITIVE_INFINITY : (head.sent?.length ?? 0)
      const first = await firstOf(received.subarray(end), pieces, length)
      const content = head.whole ? allOf(first, pieces) : contentOf(first, pieces, length)
      return { head, bytes: Readable.from(content, { objectMode: false }) }
    }
    if (end !== undefined && end > lengthBytes + rangeHeadMaxBytes) throw invalid()
    const { value, done } = await pieces.next()
    if (done) throw invalid()
    received = Buffer.concat([received, value])
  }
}

/** What fails before the first byte is a refusal, and no response has begun. */
async function firstOf(received: Buffer, pieces: AsyncGenerator<Buffer>, length: number): Promise<Buffer> {
  if (received.length > 0 || length === 0) return received
  return (await pieces.next()).value ?? received
}

function parsed(json: Buffer): RangeHead {
  try {
    return rangeHead.parse(JSON.parse(json.toString('utf8')))
  } catch {
    throw invalid()
  }
}

async function* contentOf(first: Buffer, pieces: AsyncGenerator<Buffer>, length: number): AsyncGenerator<Buffer> {
  let left = length - first.length
  if (first.length > 0) yield first
  for await (const piece of pieces) {
    left -= piece.length
    if (left < 0) break
    yield piece
  }
  if (left !== 0)
    throw refusalWithCause('host_unreachable', 'the host did not send the number of bytes that it announced')
}

async function* allOf(first: Buffer, pieces: AsyncGenerator<Buffer>): AsyncGenerator<Buffer> {
  if (first.length > 0) yield first
  yield* pieces
}

const invalid = () => refusalWithCause('host_unreachable', 'the host sent an invalid head of a range')

/** The version in an `If-Range`: a strong `ETag`; anything else matches no version. */
export function versionIn(ifRange: string | string[] | undefined): string | null {
  if (ifRange === undefined) return null
  return /^"([\w.-]{1,100})"$/.exec(String(ifRange))?.[1] ?? 'none'
}

/** 206 with the part, or 200 with the whole file: because the client has another version, or requested all of it. */
export function sendPart(
  reply: FastifyReply,
  { head, bytes }: FilePart,
  { ifVersion, isWhole, oneRequest }: { ifVersion: string | null; isWhole?: boolean; oneRequest?: boolean },
): FastifyReply {
  const { size, version, sent, whole } = head
  // A range of what has no known size is ignored.
  if (whole) return reply.type('application/octet-stream').send(bytes)
  if (!sent && !isWhole) {
    bytes.destroy()
    reply.header('content-range', `bytes */${size}`)
    return refuse('range_not_satisfiable')
  }
  const [first, length] = sent ? [sent.first, sent.length] : [0, 0]
  const isAll = isWhole || (ifVersion !== null && ifVersion !== version)
  if (!isAll) reply.code(206).header('content-range', `bytes ${first}-${first + length - 1}/${size}`)
  // No other request can get a part of what only one may open.
  if (!oneRequest) reply.header('accept-ranges', 'bytes')
  return reply
    .headers({ etag: `"${version}"`, 'content-length': String(length) })
    .type('application/octet-stream')
    .send(bytes)
}
