// Customers' routes into the guest. HTTP and nothing else.
import { execBody, execJson, fileJson, fileQuery, fileWriteMaxBytes, id, parseRange } from '@dormouse/contract'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import type { App } from '../http/app.ts'
import { BoundedBody } from '../http/bounded-body.ts'
import { callerGone, fingerprint, idempotencyKey } from '../http/requests.ts'
import type { Leadership } from '../leadership/leadership.ts'
import { customer } from '../principals/authentication.ts'
import { askingOf } from './asking.ts'
import { awakenOf } from './awaken.ts'
import { sendPart, versionIn } from './file-part.ts'
import type { KeyedExecs } from './keyed-execs.ts'
import { guestPath } from './paths.ts'
import type { Guests } from './service.ts'

const versionHeaders = {
  etag: 'With `Range`: the file’s version',
  'accept-ranges': 'With `Range`: `bytes`',
}

const params = z.object({ id })
const fileParams = z.object({
  id,
  '*': z.string().describe('Path in the guest without its leading slash; no `..`, no NUL, percent-encoded'),
})

interface GuestRoutesOptions {
  guests: Guests
  keyedExecs: KeyedExecs
  leadership: Leadership
  onMismatch(): void
}

export function guestRoutes(app: App, { guests, keyedExecs, leadership, onMismatch }: GuestRoutesOptions): void {
  app.post(
    '/desktops/:id/exec',
    {
      schema: {
        operationId: 'execInDesktop',
        right: 'use',
        tags: ['Guest'],
        wakes: 'exec',
        summary: 'Run a command in an awake desktop',
        description:
          'Only its timeout ends it. Its background processes keep running. With a key the command runs once, and a repeat answers how that run has ended, for as long as its guest keeps the output: up to 24 hours. Without a key, a 503 `host_unreachable` and a 504 do not say that nothing has run: the command may have begun, and the exact request would run it again.',
        params,
        body: execBody,
        keyed: 'desktop',
        response: { 200: execJson },
        answers: { 200: 'The command has ended, with any exit code' },
        problems: [404, 409, 504],
      },
    },
    async (request, reply) => {
      const key = idempotencyKey(request)
      if (key === null) return guests.exec(askingOf(request), request.body)
      leadership.require()
      const asking = { ...askingOf(request), signal: callerGone(request, reply) }
      const { result, replay } = await keyedExecs.run(asking, request.body, key, fingerprint(request.body))
      if (replay !== 'no') reply.header('idempotency-replayed', replay === 'same' ? 'true' : 'mismatch')
      if (replay === 'mismatch') onMismatch()
      return result
    },
  )
}

const ofFiles = { right: 'use' as const, tags: ['Guest'], wakes: 'files' as const }

/** A scope of its own: bodies are raw bytes here, whatever the Content-Type. */
export function fileRoutes(app: App, { guests, stallMs }: { guests: Guests; stallMs: number }): void {
  const instead = 'send a larger file with `POST /v1/desktops/{id}/uploads`'
  const bounds = { maxBytes: fileWriteMaxBytes, stallMs, instead }
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', (_request, _payload, done) => done(null))

  app.put(
    '/desktops/:id/files/*',
    {
      // Before `100 Continue`: a body that is known to be too large is not requested.
      onRequest: async ({ raw }) => void new BoundedBody(raw, bounds),
      schema: {
        operationId: 'writeFile',
        ...ofFiles,
        summary: 'Write a file in an awake desktop',
        description:
          'Atomic: no reader sees half a file, and after an interrupted upload the old file stays. Parent folders are created.',
        params: fileParams,
        querystring: fileQuery,
        bytes: 'The file’s bytes, up to 8 MiB, whatever the Content-Type',
        response: { 200: fileJson },
        answers: { 200: 'The file was written' },
        problems: [404, 409, 413, 504],
      },
    },
    async (request, reply) => {
      const path = guestPath(request.params['*'])
      const body = new BoundedBody(request.raw, bounds)
      const { mode, owner } = request.query
      const transfer = {
        ...transferParams(request, reply, path),
        mode: mode === undefined ? null : Number.parseInt(mode, 8),
        owner: owner ?? null,
      }
      const size = await guests.writeFile(customer(request), transfer, body)
      return { path, size }
    },
  )

  app.get(
    '/desktops/:id/files/*',
    {
      exposeHeadRoute: false,
      schema: {
        operationId: 'readFile',
        ...ofFiles,
        summary: 'Read a file in an awake desktop, or part of it',
        description:
          'A file of any size. A response that ends before its last chunk was interrupted: the rest can be read with `Range`. With the `ETag` of the first part in `If-Range`, a file that was changed meanwhile is sent whole. Several ranges in one request are ignored.',
        params: fileParams,
        answers: {
          200: { what: 'The file’s bytes', headers: versionHeaders, bytes: 'application/octet-stream' },
          206: {
            what: 'The bytes of the range',
            headers: { ...versionHeaders, 'content-range': 'Which bytes of how many, as `bytes 0-9/11`' },
            bytes: 'application/octet-stream',
          },
        },
        problems: [404, 409, 416, 504],
      },
    },
    async (request, reply) => {
      const path = guestPath(request.params['*'])
      const range = parseRange(request.headers.range) ?? null
      const ifVersion = range && versionIn(request.headers['if-range'])
      const transfer = transferParams(request, reply, path)
      const part = await guests.readFile(customer(request), transfer, range, ifVersion)
      return sendPart(reply, part, { ifVersion, isWhole: range === null })
    },
  )
}

export function transferParams(request: FastifyRequest, reply: FastifyReply, path: string) {
  const { id } = request.params as z.infer<typeof fileParams>
  return { id, path, signal: callerGone(request, reply), requestId: request.id, awaken: awakenOf(request) }
}
