// What a URL opens that was handed on: one file, for a client without a credential. Only HTTP. A guest's file must never run
// as a page or a script of this origin.
import { basename } from 'node:path'
import { Readable } from 'node:stream'
import { type FileUrlMethod, parseRange, refusals, refuse, uploadMaxBytes } from '@dormouse/contract'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import type { App } from '../http/app.ts'
import { BoundedBody } from '../http/bounded-body.ts'
import { callerGone, whenOver } from '../http/requests.ts'
import type { UnauthenticatedClients } from '../http/unauthenticated-clients.ts'
import type { Customer } from '../principals/service.ts'
import type { FilePart } from './file-part.ts'
import { sendPart, versionIn } from './file-part.ts'
import type { FileUrlRow } from './file-url-store.ts'
import type { FileUrls } from './file-urls.ts'
import type { Guests } from './service.ts'

/**
 * For each desktop and replica: a guest has four transfers, and its owner must not wait for other people's slow connections.
 */
const transfersAtOnce = 2

const params = z.object({ url: z.string(), token: z.string() })

const headers = {
  'content-security-policy': `sandbox; default-src 'none'; frame-ancestors 'none'`,
  'x-content-type-options': 'nosniff',
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'cache-control': 'private, no-store',
  'x-robots-tag': 'noindex',
}

interface HandedFilesOptions {
  fileUrls: FileUrls
  guests: Guests
  strangers: UnauthenticatedClients
  /** Counts the request by a name instead of its address; throws above the limit. */
  count(request: FastifyRequest['raw'], name: string, limit: number): void
  stallMs: number
}

/** In a scope that counts every request by its address. Bodies are raw bytes here, whatever the Content-Type. */
export function handedFileRoutes(app: App, options: HandedFilesOptions): void {
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', (_request, _payload, done) => done(null))
  const opened = new WeakMap<FastifyRequest, FileUrlRow>()
  app.addHook('onRequest', async (_request, reply) => void reply.headers(headers))

  /** Before `100 Continue`: no body is requested that a URL does not take. */
  const open = (method: FileUrlMethod) => async (request: FastifyRequest, reply: FastifyReply) => {
    const { url, token } = request.params as z.infer<typeof params>
    const row = await options.fileUrls.open(url, token)
    if (row.method !== method) {
      reply.header('allow', row.method)
      refuse('method_not_allowed', refusals.method_not_allowed.detail({ allow: row.method }))
    }
    options.count(request.raw, `file-urls-of:${row.desktopId}`, transfersAtOnce)
    if (method === 'PUT') bodyOf(request, row, options.stallMs)
    opened.set(request, row)
  }

  app.get(
    '/:url/:token',
    { exposeHeadRoute: false, onRequest: open('GET'), schema: { hide: true, params } },
    (request, reply) => sendFile(options, opened.get(request)!, request, reply),
  )

  app.put('/:url/:token', { onRequest: open('PUT'), schema: { hide: true, params } }, (request, reply) =>
    takeFile(options, opened.get(request)!, request, reply),
  )
}

async function sendFile(options: HandedFilesOptions, row: FileUrlRow, request: FastifyRequest, reply: FastifyReply) {
  const { guests } = options
  const transfer = beginTransfer(options, row, request, reply)
  const range = row.once ? undefined : parseRange(request.headers.range)
  const ifVersion = range ? versionIn(request.headers['if-range']) : null
  const part = await guests.readFile(makerOf(row), transfer, range ?? null, ifVersion)
  try {
    const { size } = part.head
    if (row.maxBytes !== null && size > row.maxBytes)
      refuse('payload_too_large', `the file has ${size} bytes; this URL sends ${row.maxBytes} at most`)
    await options.fileUrls.spend(row, options.strangers.addressOf(request.raw))
    reply.header('content-disposition', dispositionOf(row.path))
    return sendPart(reply, atMost(part, row.maxBytes), {
      ifVersion,
      isWhole: range === undefined,
      oneRequest: row.once,
    })
  } catch (error) {
    part.bytes.destroy()
    throw error
  }
}

async function takeFile(options: HandedFilesOptions, row: FileUrlRow, request: FastifyRequest, reply: FastifyReply) {
  const { guests, fileUrls, strangers, stallMs } = options
  const body = bodyOf(request, row, stallMs)
  const transfer = { ...beginTransfer(options, row, request, reply), mode: null, owner: null }
  const size = await guests.writeFile(makerOf(row), transfer, {
    discard: () => body.discard(),
    into: async (channel) => {
      await fileUrls.spend(row, strangers.addressOf(request.raw))
      await body.into(channel)
    },
  })
  return { size }
}

/** If the size is known only at the end, what exceeds the limit is cut: the response does not look whole. */
function atMost(part: FilePart, maxBytes: number | null): FilePart {
  if (maxBytes === null || !part.head.whole) return part
  let size = 0
  const counted = async function* (bytes: AsyncIterable<Buffer>) {
    for await (const piece of bytes) {
      size += piece.length
      if (size > maxBytes) refuse('payload_too_large', `the file has more than ${maxBytes} bytes`)
      yield piece
    }
  }
  return { ...part, bytes: Readable.from(counted(part.bytes), { objectMode: false }) }
}

/** The client of a URL has what its maker has, for this one file. */
const makerOf = ({ orgId, madeBy }: FileUrlRow): Customer => ({
  kind: 'customer',
  orgId,
  subject: madeBy,
  goodUntil: null,
  can: null,
  scope: null,
})

const bodyOf = ({ raw }: FastifyRequest, { maxBytes }: FileUrlRow, stallMs: number) =>
  new BoundedBody(raw, { maxBytes: maxBytes ?? uploadMaxBytes, stallMs })

/** Cut when the client disconnects, or the URL is revoked. */
function beginTransfer(
  { fileUrls }: HandedFilesOptions,
  row: FileUrlRow,
  request: FastifyRequest,
  reply: FastifyReply,
) {
  const { signal, end } = fileUrls.begin(row)
  whenOver(request, reply, end)
  return {
    id: row.desktopId,
    path: row.path,
    signal: AbortSignal.any([callerGone(request, reply), signal]),
    requestId: request.id,
  }
}

/** Always a download, under the file's own name. */
function dispositionOf(path: string): string {
  const name = basename(path)
  const plain = name.replace(/[^\w.-]/g, '_')
  const encoded = encodeURIComponent(name.toWellFormed()).replace(
    /['()*]/g,
    (one) => `%${one.charCodeAt(0).toString(16).toUpperCase()}`,
  )
  return `attachment; filename="${plain}"; filename*=UTF-8''${encoded}`
}
