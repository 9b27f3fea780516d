// Operators' routes for draining a host. Only HTTP.
import { drainBody, drainJson, id, printable } from '@dormouse/contract'
import { z } from 'zod'
import type { App } from '../http/app.ts'
import { noteOf } from '../http/audit-trail.ts'
import type { Leadership } from '../leadership/leadership.ts'
import type { Drains } from './service.ts'

const host = z.object({ host: printable(100).describe('Name or id of the host') })
const params = z.object({ id })

export function drainRoutes(app: App, { drains, leadership }: { drains: Drains; leadership: Leadership }): void {
  app.post(
    '/hosts/:host/drain',
    {
      schema: { act: 'host.drain', params: host, body: drainBody, response: { 200: drainJson, 202: drainJson } },
      preValidation: async (request) => {
        request.body ??= {}
      },
    },
    async (request, reply) => {
      leadership.require()
      const { dry_run: isDry, ...wanted } = request.body
      const note = noteOf(request)
      if (!isDry) return reply.code(202).send(await drains.start(request.params.host, wanted, note))
      const plan = await drains.plan(request.params.host, wanted)
      // Nothing was changed: there is nothing to record.
      await leadership.transaction((tx) => note(tx, plan.host_id, null))
      return plan
    },
  )

  app.get('/drains/:id', { schema: { params, response: { 200: drainJson } } }, (request) =>
    drains.show(request.params.id),
  )

  app.post(
    '/drains/:id/cancel',
    { schema: { act: 'drain.cancel', params, response: { 200: drainJson } } },
    (request) => {
      leadership.require()
      return drains.cancel(request.params.id, noteOf(request))
    },
  )
}
