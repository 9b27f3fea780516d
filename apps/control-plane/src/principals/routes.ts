// Operators' routes for organisations and keys. HTTP and nothing else.
import { createdKeyJson, createKeyBody, createOrgBody, id, keyJson, orgJson } from '@dormouse/contract'
import { z } from 'zod'
import type { App } from '../http/server.ts'
import type { Principals } from './service.ts'

export function principalRoutes(app: App, { principals }: { principals: Principals }): void {
  app.post('/orgs', { schema: { body: createOrgBody, response: { 201: orgJson } } }, async (request, reply) =>
    reply.code(201).send(await principals.createOrg(request.body.name)),
  )

  app.get('/orgs', { schema: { response: { 200: z.object({ orgs: z.array(orgJson) }) } } }, async () => ({
    orgs: await principals.listOrgs(),
  }))

  app.post('/keys', { schema: { body: createKeyBody, response: { 201: createdKeyJson } } }, async (request, reply) =>
    reply.code(201).send(await principals.createKey(request.body.org_id, request.body.name ?? 'key')),
  )

  app.get(
    '/keys',
    {
      schema: {
        querystring: z.object({ org_id: id.optional() }),
        response: { 200: z.object({ keys: z.array(keyJson) }) },
      },
    },
    async (request) => ({ keys: await principals.listKeys(request.query.org_id ?? null) }),
  )

  app.delete('/keys/:id', { schema: { params: z.object({ id }) } }, async (request, reply) => {
    await principals.revokeKey(request.params.id)
    return reply.code(204).send()
  })
}
