// Customers' routes for keys. Only HTTP.
import { createApiKeyBody, createdOwnKeyJson, id, ownKeyListJson, refuseField } from '@dormouse/contract'
import { z } from 'zod'
import type { App } from '../http/app.ts'
import { customer } from '../principals/authentication.ts'
import type { Keys } from './service.ts'

const tags = ['Keys']

export function keyRoutes(app: App, { keys }: { keys: Keys }): void {
  app.post(
    '/keys',
    {
      schema: {
        operationId: 'createKey',
        right: 'admin',
        tags,
        summary: 'Make an API key that may do some things, with some desktops',
        description:
          'It may do nothing that the credential of this request may not. It outlives that credential, also if that is revoked.',
        body: createApiKeyBody,
        response: { 201: createdOwnKeyJson },
        answers: { 201: 'The key, which is shown only here' },
        problems: [404, 409],
      },
    },
    async (request, reply) => {
      const { name, can, select = null, desktop_id: desktopId = null, expires_in_secs: validSecs = null } = request.body
      if (select !== null && desktopId !== null) refuseField('desktop_id', 'is sent beside select; send one of them')
      const made = await keys.create(customer(request), { name, can, selector: select, desktopId, validSecs })
      return reply.code(201).send(made)
    },
  )

  app.get(
    '/keys',
    {
      schema: {
        operationId: 'listKeys',
        right: 'admin',
        tags,
        summary: 'List the valid keys of the organisation, oldest first',
        description: 'Of a credential that is limited to some desktops: those keys that reach no others.',
        response: { 200: ownKeyListJson },
        answers: { 200: 'All of them, without the keys themselves' },
      },
    },
    async (request) => ({ keys: await keys.list(customer(request)) }),
  )

  app.delete(
    '/keys/:id',
    {
      schema: {
        operationId: 'revokeKey',
        right: 'admin',
        tags,
        summary: 'Revoke a key',
        description: 'Within 5 s it opens nothing on any replica, and what it has open is closed.',
        params: z.object({ id }),
        answers: { 204: 'It is revoked, or was before' },
        problems: [404],
      },
    },
    async (request, reply) => {
      await keys.revoke(customer(request), request.params.id)
      return reply.code(204).send()
    },
  )
}
