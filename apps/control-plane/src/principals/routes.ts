// Operators' routes for organisations and keys. HTTP and nothing else.
import {
  changeOrgBody,
  createdKeyJson,
  createKeyBody,
  createOrgBody,
  id,
  keyJson,
  orgJson,
  orgsJson,
} from '@dormouse/contract'
import { z } from 'zod'
import type { App } from '../http/app.ts'
import { noteOf } from '../http/audit-trail.ts'
import type { Principals } from './service.ts'

export function principalRoutes(
  app: App,
  { principals, maxDesktopsPerOrg }: { principals: Principals; maxDesktopsPerOrg: number },
): void {
  app.post(
    '/orgs',
    { schema: { act: 'org.create', body: createOrgBody, response: { 201: orgJson } } },
    async (request, reply) => reply.code(201).send(await principals.createOrg(request.body.name, noteOf(request))),
  )

  app.get('/orgs', { schema: { response: { 200: orgsJson } } }, async () => ({
    orgs: await principals.listOrgs(),
    default_max_desktops: maxDesktopsPerOrg,
  }))

  app.patch(
    '/orgs/:id',
    { schema: { act: 'org.change', params: z.object({ id }), body: changeOrgBody, response: { 200: orgJson } } },
    async (request) => principals.limitOrg(request.params.id, request.body.max_desktops, noteOf(request)),
  )

  app.post(
    '/keys',
    { schema: { act: 'key.create', body: createKeyBody, response: { 201: createdKeyJson } } },
    async (request, reply) => {
      const { org_id: orgId, name } = request.body
      return reply.code(201).send(await principals.createKey(orgId, name ?? 'key', noteOf(request)))
    },
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

  app.delete('/keys/:id', { schema: { act: 'key.revoke', params: z.object({ id }) } }, async (request, reply) => {
    await principals.revokeKey(request.params.id, noteOf(request))
    return reply.code(204).send()
  })
}
