// Operators' routes for hosts that are removed, or lost and taken back. Only HTTP.
import { printable, removalJson, removeHostBody, returnedHostJson } from '@dormouse/contract'
import { z } from 'zod'
import { retryWhileUnavailable } from '../db/pool.ts'
import type { App } from '../http/app.ts'
import { noteOf } from '../http/audit-trail.ts'
import type { Leadership } from '../leadership/leadership.ts'
import type { Removals } from './service.ts'

const params = z.object({ host: printable(100).describe('Name or id of the host') })

export function removalRoutes(
  app: App,
  { removals, leadership }: { removals: Removals; leadership: Leadership },
): void {
  app.get('/hosts/:host/removal', { schema: { params, response: { 200: removalJson } } }, (request) =>
    retryWhileUnavailable(() => removals.preview(request.params.host)),
  )

  app.post(
    '/hosts/:host/removal',
    { schema: { act: 'host.remove', params, body: removeHostBody, response: { 200: removalJson } } },
    (request) => {
      leadership.require()
      return removals.remove(request.params.host, request.body.yes_lose, noteOf(request))
    },
  )

  app.post(
    '/hosts/:host/loss',
    { schema: { act: 'host.lose', params, body: removeHostBody, response: { 200: removalJson } } },
    (request) => {
      leadership.require()
      return removals.lose(request.params.host, request.body.yes_lose, noteOf(request))
    },
  )

  app.post(
    '/hosts/:host/return',
    { schema: { act: 'host.return', params, response: { 200: returnedHostJson } } },
    (request) => {
      leadership.require()
      return removals.takeBack(request.params.host, noteOf(request))
    },
  )
}
