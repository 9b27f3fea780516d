// Operators' routes for organisations and keys. HTTP and nothing else.
import {
  changeOperatorKeyBody,
  changeOrgBody,
  createdKeyJson,
  createdOperatorKeyJson,
  createKeyBody,
  createOperatorKeyBody,
  createOrgBody,
  id,
  keyJson,
  operatorKeyJson,
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

  for (const [verb, suspended] of [
    ['suspend', true],
    ['resume', false],
  ] as const) {
    app.post(
      `/orgs/:id/${verb}`,
      { schema: { act: `org.${verb}`, params: z.object({ id }), response: { 200: orgJson } } },
      async (request) => principals.suspendOrg(request.params.id, suspended, noteOf(request)),
    )
  }

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

/** The keys of operators, and those that read metrics. */
export function operatorKeyRoutes(app: App, { principals }: { principals: Principals }): void {
  const params = z.object({ id })
  app.post(
    '/operator-keys',
    { schema: { act: 'operator_key.create', body: createOperatorKeyBody, response: { 201: createdOperatorKeyJson } } },
    async (request, reply) => reply.code(201).send(await principals.makeOperatorKey(request.body, noteOf(request))),
  )

  app.get(
    '/operator-keys',
    { schema: { response: { 200: z.object({ operator_keys: z.array(operatorKeyJson) }) } } },
    async () => ({ operator_keys: await principals.listOperatorKeys() }),
  )

  app.patch(
    '/operator-keys/:id',
    {
      schema: {
        act: 'operator_key.change',
        params,
        body: changeOperatorKeyBody,
        response: { 200: operatorKeyJson },
      },
    },
    async (request) => principals.changeOperatorKey(request.params.id, request.body, noteOf(request)),
  )

  app.delete('/operator-keys/:id', { schema: { act: 'operator_key.revoke', params } }, async (request, reply) => {
    await principals.revokeKey(request.params.id, noteOf(request), 'operator')
    return reply.code(204).send()
  })
}
