// Sends a file, or part of one, whose host has sent its size and version. Only HTTP.
import { refuse } from '@dormouse/contract'
import type { FastifyReply } from 'fastify'
import type { FilePart } from './file-part.ts'

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
