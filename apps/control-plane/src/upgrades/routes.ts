// Operators' routes for releases: which runs where, and upgrades of hosts. Only HTTP.
import { id, packageVersion, replicaJson, upgradeBody, upgradeJson, upgradePlanJson } from '@dormouse/contract'
import { z } from 'zod'
import type { App } from '../http/app.ts'
import { noteOf } from '../http/audit-trail.ts'
import type { Leadership } from '../leadership/leadership.ts'
import type { Upgrades } from './service.ts'

const params = z.object({ id })
const querystring = z.object({
  version: packageVersion.optional().describe('The release to plan for; by default the newest that runs anywhere'),
})

export function upgradeRoutes(
  app: App,
  { upgrades, leadership }: { upgrades: Upgrades; leadership: Leadership },
): void {
  app.get('/replicas', { schema: { response: { 200: z.object({ replicas: z.array(replicaJson) }) } } }, async () => ({
    replicas: await upgrades.replicas(),
  }))

  app.get('/upgrades/plan', { schema: { querystring, response: { 200: upgradePlanJson } } }, (request) =>
    upgrades.plan(request.query.version ?? null),
  )

  app.get('/upgrades', { schema: { response: { 200: z.object({ upgrades: z.array(upgradeJson) }) } } }, async () => ({
    upgrades: await upgrades.list(),
  }))

  app.post(
    '/upgrades',
    {
      schema: { act: 'upgrade.start', body: upgradeBody, response: { 202: upgradeJson } },
      preValidation: async (request) => {
        request.body ??= {}
      },
    },
    async (request, reply) => {
      leadership.require()
      return reply.code(202).send(await upgrades.start(request.body, noteOf(request)))
    },
  )

  app.get('/upgrades/:id', { schema: { params, response: { 200: upgradeJson } } }, (request) =>
    upgrades.show(request.params.id),
  )

  app.post(
    '/upgrades/:id/cancel',
    { schema: { act: 'upgrade.cancel', params, response: { 200: upgradeJson } } },
    (request) => {
      leadership.require()
      return upgrades.cancel(request.params.id, noteOf(request))
    },
  )
}
