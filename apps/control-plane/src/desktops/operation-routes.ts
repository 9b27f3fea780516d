// Routes that read operations. Only HTTP.
import { adminOperationJson, id, operationJson, operationListJson, refuseNotFound } from '@dormouse/contract'
import { z } from 'zod'
import { type Pool, retryWhileUnavailable } from '../db/pool.ts'
import type { App } from '../http/app.ts'
import { callerGone, waitQuery } from '../http/requests.ts'
import * as operations from '../operations/store.ts'
import { customer } from '../principals/authentication.ts'
import type { Desktops } from './service.ts'

const params = z.object({ id })

export function operationRoutes(app: App, { pool, desktops }: { pool: Pool; desktops: Desktops }): void {
  app.get(
    '/operations/:id',
    {
      schema: {
        operationId: 'getOperation',
        right: 'see',
        tags: ['Operations'],
        summary: 'Read an operation',
        params,
        querystring: waitQuery,
        response: { 200: operationJson },
        answers: { 200: 'The operation as it stands now; with `wait`, settled, or as it is after 120 s' },
        problems: [404],
      },
    },
    async (request, reply) => {
      const found = await desktops.operation(customer(request), request.params.id)
      if (request.query.wait !== 'true') return desktops.operationToJson(found)
      return desktops.operationToJson(await desktops.settled(found, callerGone(request, reply)))
    },
  )

  app.get(
    '/desktops/:id/operations',
    {
      schema: {
        operationId: 'listOperations',
        right: 'see',
        tags: ['Operations'],
        summary: 'List the latest operations of a desktop, newest first',
        params,
        response: { 200: operationListJson },
        answers: { 200: 'At most 100 operations' },
        problems: [404],
      },
    },
    async (request) => {
      const caller = customer(request)
      const desktop = await desktops.get(caller, request.params.id)
      const rows = await retryWhileUnavailable(() => operations.listOfDesktop(pool, caller.orgId, desktop.id, 100))
      return { operations: rows.map((row) => desktops.operationToJson(row)) }
    },
  )
}

/** Operators' route for one operation: its cause, findings and timeline. */
export function operationAdminRoutes(app: App, { pool, desktops }: { pool: Pool; desktops: Desktops }): void {
  const schema = { params, querystring: waitQuery, response: { 200: adminOperationJson } }
  app.get('/operations/:id', { schema }, async (request, reply) => {
    const { id } = request.params
    const found = (await desktops.wholeOperation(id)) ?? refuseNotFound()
    if (request.query.wait !== 'true') return found
    const row = (await retryWhileUnavailable(() => operations.find(pool, found.org_id, id))) ?? refuseNotFound()
    await desktops.settled(row, callerGone(request, reply))
    return (await desktops.wholeOperation(id)) ?? refuseNotFound()
  })
}
