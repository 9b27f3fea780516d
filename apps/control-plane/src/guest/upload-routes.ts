// Customers' routes of resumable uploads, after draft-ietf-httpbis-resumable-upload. HTTP and nothing else.
import {
  id,
  Refusal,
  refuseField,
  type UploadJson,
  uploadJson,
  uploadMaxBytes,
  uploadMaxSecs,
  uploadQuery,
} from '@dormouse/contract'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import type { App } from '../http/app.ts'
import { BoundedBody } from '../http/bounded-body.ts'
import { drain } from '../http/early-responses.ts'
import { callerGone } from '../http/requests.ts'
import type { Leadership } from '../leadership/leadership.ts'
import { askingOf } from './asking.ts'
import { entryPath } from './paths.ts'
import type { UploadRequest, Uploads } from './uploads.ts'

const params = z.object({ id })
const uploadParams = params.extend({ upload: id })

const headers = {
  'upload-offset': 'Bytes that the guest has',
  'upload-complete': '`?1`: the file is in its place',
  'upload-limit': 'The largest file, and how long an upload is kept',
}
const limits = `max-size=${uploadMaxBytes}, max-age=${uploadMaxSecs}`

/** Made for each server: its document is made of these very objects. */
const schemasOf = () =>
  ({
    create: {
      operationId: 'createUpload',
      right: 'use',
      tags: ['Guest'],
      wakes: 'files',
      summary: 'Begin an upload that can go on after an interruption',
      description:
        'For files of any size, after the IETF’s draft of resumable uploads. The file appears whole, when the last part has come. The body may be its first part, or all of it with `Upload-Complete: ?1`. At most 16 unfinished uploads of a desktop.',
      params,
      querystring: uploadQuery,
      bytes: 'The first part of the file; may be empty',
      response: { 201: uploadJson },
      answers: { 201: { what: 'The upload has begun', headers: { location: 'The upload', ...headers } } },
      problems: [404, 409, 413, 504],
    },
    get: {
      operationId: 'getUpload',
      right: 'use',
      tags: ['Guest'],
      wakes: 'files',
      summary: 'Read how much of an upload has come',
      description: 'An append in progress is ended: its connection may be cut without the service having noticed.',
      params: uploadParams,
      response: { 200: uploadJson },
      answers: { 200: { what: 'The upload', headers: { 'cache-control': '`no-store`', ...headers } } },
      problems: [404, 409, 504],
    },
    append: {
      operationId: 'appendToUpload',
      right: 'use',
      tags: ['Guest'],
      wakes: 'files',
      summary: 'Send the next part of an upload',
      description:
        'From `Upload-Offset` on, which must be what the guest has. `Upload-Complete: ?1` says that it is the last part; it may be empty. After an interruption, HEAD says where to go on. A 409 `upload_offset` says it in its own `Upload-Offset`.',
      params: uploadParams,
      bytes: 'The part',
      response: { 200: uploadJson },
      answers: { 200: { what: 'The guest has the part', headers } },
      problems: [404, 409, 413, 504],
    },
    remove: {
      operationId: 'deleteUpload',
      right: 'use',
      tags: ['Guest'],
      summary: 'Give an upload up',
      description: 'What has come is removed, at once or when the desktop is awake again. A file in its place stays.',
      params: uploadParams,
      answers: { 204: 'There is no such upload any more' },
      problems: [404],
    },
  }) as const

interface UploadRoutesOptions {
  uploads: Uploads
  leadership: Leadership
  stallMs: number
}

/** A scope of its own: bodies are raw bytes here, whatever the Content-Type. */
export function uploadRoutes(app: App, { uploads, leadership, stallMs }: UploadRoutesOptions): void {
  const schemas = schemasOf()
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', (_request, _payload, done) => done(null))
  const bodyOf = ({ raw }: FastifyRequest, maxBytes: number) => new BoundedBody(raw, { maxBytes, stallMs })

  /** What is left of a body that was refused is dropped for a moment, so that its client reads why. */
  const dropping = async <T>(request: FastifyRequest, work: () => Promise<T>): Promise<T> => {
    try {
      return await work()
    } catch (error) {
      drain(request.raw, stallMs)
      throw error
    }
  }

  app.post('/desktops/:id/uploads', { schema: schemas.create }, (request, reply) =>
    dropping(request, async () => {
      leadership.require()
      const { id: desktopId } = request.params
      const [complete, length] = [completeOf(request, false), integerOf(request, 'upload-length')]
      const isEmpty = !complete && Number(request.headers['content-length'] ?? 0) === 0 && !isChunked(request)
      const part = isEmpty ? undefined : { offset: 0, complete, body: bodyOf(request, length ?? uploadMaxBytes) }
      const file = { ...fileOf(request.query), length: length ?? null }
      const now = await uploads.create(requestOf(request, reply), file, part)
      reply.header('location', `/v1/desktops/${desktopId}/uploads/${now.id}`)
      return reply.code(201).headers(headersOf(now)).send(now)
    }),
  )

  app.get('/desktops/:id/uploads/:upload', { schema: schemas.get }, async (request, reply) => {
    const now = await uploads.show(requestOf(request, reply), request.params.upload)
    return reply.headers({ 'cache-control': 'no-store', ...headersOf(now) }).send(now)
  })

  app.patch('/desktops/:id/uploads/:upload', { schema: schemas.append }, (request, reply) =>
    dropping(request, async () => {
      leadership.require()
      const offset = integerOf(request, 'upload-offset') ?? refuseField('Upload-Offset', 'must be sent')
      const part = { offset, complete: completeOf(request), body: bodyOf(request, uploadMaxBytes - offset) }
      const [asked, { upload }] = [requestOf(request, reply), request.params]
      const now = await uploads.append(asked, upload, part).catch(async (error: unknown) => {
        const isBehind = error instanceof Refusal && error.code === 'upload_offset'
        if (isBehind) reply.header('upload-offset', String((await uploads.show(asked, upload)).offset))
        throw error
      })
      return reply.headers(headersOf(now)).send(now)
    }),
  )

  app.delete('/desktops/:id/uploads/:upload', { schema: schemas.remove }, async (request, reply) => {
    leadership.require()
    await uploads.remove(requestOf(request, reply), request.params.upload)
    return reply.code(204).send()
  })
}

function fileOf({ path: given, mode, owner }: z.infer<typeof uploadQuery>) {
  const path = entryPath('path', given)
  if (path === '/') refuseField('path', 'must name a file')
  return { path, mode: mode === undefined ? null : Number.parseInt(mode, 8), owner: owner ?? null }
}

const isChunked = ({ headers }: FastifyRequest) => headers['transfer-encoding'] !== undefined

function requestOf(request: FastifyRequest, reply: FastifyReply): UploadRequest {
  const { id: desktopId } = request.params as z.infer<typeof params>
  return { ...askingOf(request), desktopId, signal: callerGone(request, reply) }
}

function headersOf({ offset, complete }: UploadJson) {
  return { 'upload-offset': String(offset), 'upload-complete': complete ? '?1' : '?0', 'upload-limit': limits }
}

/** A boolean of a structured field. */
function completeOf({ headers }: FastifyRequest, byDefault?: boolean): boolean {
  const given = headers['upload-complete']
  if (given === undefined && byDefault !== undefined) return byDefault
  return given === '?1' || (given !== '?0' && refuseField('Upload-Complete', 'must be `?0` or `?1`'))
}

/** An integer of a structured field. */
function integerOf({ headers }: FastifyRequest, name: 'upload-offset' | 'upload-length'): number | undefined {
  const given = headers[name]
  if (given === undefined) return undefined
  const title = name === 'upload-offset' ? 'Upload-Offset' : 'Upload-Length'
  if (!/^\d{1,15}$/.test(String(given))) refuseField(title, 'must be a number of bytes')
  if (Number(given) > uploadMaxBytes) refuseField(title, `must be at most ${uploadMaxBytes}`)
  return Number(given)
}
