// Routes for quotas by selector: customers see theirs, operators set them. Only HTTP.
import { id, orgQuotasJson, ownQuotasJson, quotaJson, quotaName, setQuotaBody } from '@dormouse/contract'
import { z } from 'zod'
import type { App } from '../http/app.ts'
import { noteOf } from '../http/audit-trail.ts'
import { customer } from '../principals/authentication.ts'
import type { Quotas } from './service.ts'

export function quotaRoutes(app: App, quotas: Quotas): void {
  app.get(
    '/quotas',
    {
      schema: {
        operationId: 'listQuotas',
        right: 'see',
        tags: ['Desktops'],
        description: 'Of a credential that is limited to some desktops, only those count that it reaches.',
        summary: 'Show how many desktops the organisation may have, and how many it has',
        response: { 200: ownQuotasJson },
        answers: { 200: 'The limit of all desktops, and the quotas by labels' },
      },
    },
    async (request) => quotas.show(customer(request)),
  )
}

export function quotaAdminRoutes(app: App, quotas: Quotas): void {
  const params = z.object({ id, name: quotaName })

  app.get(
    '/orgs/:id/quotas',
    { schema: { params: z.object({ id }), response: { 200: orgQuotasJson } } },
    async (request) => ({ quotas: await quotas.list(request.params.id) }),
  )

  app.put(
    '/orgs/:id/quotas/:name',
    { schema: { act: 'quota.set', params, body: setQuotaBody, response: { 200: quotaJson } } },
    async (request) => quotas.set(request.params.id, request.params.name, request.body, noteOf(request)),
  )

  app.delete('/orgs/:id/quotas/:name', { schema: { act: 'quota.remove', params } }, async (request, reply) => {
    await quotas.remove(request.params.id, request.params.name, noteOf(request))
    return reply.code(204).send()
  })
}
