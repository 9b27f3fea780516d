// Customers' routes that copy a folder as one tar archive. HTTP and nothing else.
import { archiveJson, archiveQuery, id, uploadMaxBytes } from '@dormouse/contract'
import { z } from 'zod'
import type { App } from '../http/app.ts'
import { BoundedBody } from '../http/bounded-body.ts'
import { customer } from '../principals/authentication.ts'
import { entryPath } from './paths.ts'
import { transferParams } from './routes.ts'
import type { Guests } from './service.ts'

const params = z.object({
  id,
  '*': z.string().describe('Path of the folder without its leading slash; no `..`, no NUL, percent-encoded'),
})

/** A scope of its own: bodies are raw bytes here, whatever the Content-Type. */
export function archiveRoutes(app: App, { guests, stallMs }: { guests: Guests; stallMs: number }): void {
  const bounds = { maxBytes: uploadMaxBytes, stallMs }
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', (_request, _payload, done) => done(null))

  app.put(
    '/desktops/:id/archives/*',
    {
      // Before `100 Continue`: a body that is known to be too large is not requested.
      onRequest: async ({ raw }) => void new BoundedBody(raw, bounds),
      schema: {
        operationId: 'writeArchive',
        right: 'use',
        tags: ['Guest'],
        wakes: 'files',
        summary: 'Write a folder in an awake desktop, from one tar archive',
        description:
          'Nothing is in its place before the whole archive has come, and after an interruption nothing is left of it. A new folder appears at once, with its parents. In one that is there already, what the archive has is added or replaced, each file whole, and the rest stays. The archive’s owners are ignored. The guest’s own tar unpacks it.',
        params,
        querystring: archiveQuery,
        bytes: 'A tar archive, not compressed, whatever the Content-Type',
        response: { 200: archiveJson },
        answers: { 200: 'The folder was written' },
        problems: [404, 409, 413, 504],
      },
    },
    async (request, reply) => {
      const path = entryPath('path', `/${request.params['*']}`)
      const body = new BoundedBody(request.raw, bounds)
      const transfer = { ...transferParams(request, reply, path), owner: request.query.owner ?? null }
      const size = await guests.writeArchive(customer(request), transfer, body)
      return { path, size }
    },
  )

  app.get(
    '/desktops/:id/archives/*',
    {
      exposeHeadRoute: false,
      schema: {
        operationId: 'readArchive',
        right: 'use',
        tags: ['Guest'],
        wakes: 'files',
        summary: 'Read a folder in an awake desktop, as one tar archive',
        description:
          'The folder’s entries are named from `./` on. The guest’s own tar packs them as they are sent, so their sizes are not known before. A response that ends before its last chunk was interrupted, or something could not be read: the archive is not whole.',
        params,
        answers: { 200: { what: 'The archive', bytes: 'application/x-tar' } },
        problems: [404, 409, 504],
      },
    },
    async (request, reply) => {
      const path = entryPath('path', `/${request.params['*']}`)
      const bytes = await guests.readArchive(customer(request), transferParams(request, reply, path))
      return reply.type('application/x-tar').send(bytes)
    },
  )
}
