// Customers' routes for URLs that are handed on. Only HTTP.
import { createdFileUrlJson, createFileUrlBody, fileUrlsJson, id, refuseField } from '@dormouse/contract'
import { z } from 'zod'
import type { App } from '../http/app.ts'
import { originOf } from '../http/origin.ts'
import type { Leadership } from '../leadership/leadership.ts'
import { customer } from '../principals/authentication.ts'
import type { FileUrls } from './file-urls.ts'
import { entryPath } from './paths.ts'

const params = z.object({ id })

interface FileUrlRoutesOptions {
  fileUrls: FileUrls
  leadership: Leadership
  /** The service's public origin; by default the one of the request. */
  origin: string | undefined
}

export function fileUrlRoutes(app: App, { fileUrls, leadership, origin }: FileUrlRoutesOptions): void {
  app.post(
    '/desktops/:id/file-urls',
    {
      schema: {
        operationId: 'createFileUrl',
        right: 'use',
        tags: ['Guest'],
        summary: 'Make a URL that reads or writes one file without a credential',
        description:
          'To hand on to another program or person. `GET` of the URL sends the file as a download, with `Range` where it may be used more than once; `PUT` writes its body as the whole file. One with `once` is used up before the first byte: after an interruption it answers 410, and another has to be made. It ends when it is revoked, and with the API key or access token that made it. It never wakes the desktop: 409 while that sleeps. At most 100 active ones of a desktop, and two transfers at a time. The token is in the path: keep it out of the logs of proxies.',
        params,
        body: createFileUrlBody,
        response: { 201: createdFileUrlJson },
        answers: { 201: { what: 'The URL was made', headers: { 'cache-control': '`no-store`' } } },
        problems: [403, 404, 409],
      },
    },
    async (request, reply) => {
      leadership.require()
      const path = entryPath('path', request.body.path)
      if (path === '/') refuseField('path', 'must name a file')
      const { made, token } = await fileUrls.create(customer(request), request.params.id, { ...request.body, path })
      const url = `${origin ?? originOf(request)}/files/${made.id}/${token}`
      return reply
        .code(201)
        .header('cache-control', 'no-store')
        .send({ ...made, url })
    },
  )

  app.get(
    '/desktops/:id/file-urls',
    {
      schema: {
        operationId: 'listFileUrls',
        right: 'use',
        tags: ['Guest'],
        summary: 'List the URLs that were made for files of a desktop',
        description:
          'Those that have ended are listed for a week. The URLs themselves are shown only when they are made.',
        params,
        response: { 200: fileUrlsJson },
        answers: { 200: 'The URLs, without their tokens' },
        problems: [404],
      },
    },
    async (request) => ({ file_urls: await fileUrls.list(customer(request), request.params.id) }),
  )

  app.delete(
    '/desktops/:id/file-urls/:url',
    {
      schema: {
        operationId: 'revokeFileUrl',
        right: 'use',
        tags: ['Guest'],
        summary: 'Revoke a URL that was handed on',
        description: 'It opens nothing any more, and its transfers in progress are cut.',
        params: params.extend({ url: id.describe('Id of the URL') }),
        answers: { 204: 'It is revoked' },
        problems: [404],
      },
    },
    async (request, reply) => {
      leadership.require()
      await fileUrls.revoke(customer(request), request.params.id, request.params.url)
      return reply.code(204).send()
    },
  )
}
