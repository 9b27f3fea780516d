// Operators' route that moves a desktop to another host. Only HTTP.
import { id, moveBody, operationJson } from '@dormouse/contract'
import { z } from 'zod'
import type { App } from '../http/app.ts'
import { noteOf } from '../http/audit-trail.ts'
import { callerGone, waitQuery } from '../http/requests.ts'
import type { Leadership } from '../leadership/leadership.ts'
import type { Moves } from './moves.ts'
import type { Desktops } from './service.ts'

export interface MoveRoutesOptions {
  leadership: Leadership
  moves: Moves
  desktops: Pick<Desktops, 'settled' | 'operationToJson'>
}

export function moveAdminRoutes(app: App, { leadership, moves, desktops }: MoveRoutesOptions): void {
  app.post(
    '/desktops/:id/move',
    {
      schema: {
        act: 'desktop.move',
        params: z.object({ id }),
        querystring: waitQuery,
        body: moveBody,
        response: { 200: operationJson, 202: operationJson },
      },
      preValidation: async (request) => {
        if (request.body === undefined) request.body = {}
      },
    },
    async (request, reply) => {
      leadership.require()
      const { to = null, mode } = request.body
      const asked = { to, requestedBy: 'operator', requestId: request.id, note: noteOf(request) } as const
      const wanted = { ...asked, ...(mode && { mode }) }
      const operation = await moves.begin(request.params.id, wanted)
      const wait = request.query.wait === 'true'
      const answer = wait ? await desktops.settled(operation, callerGone(request, reply)) : operation
      return reply.code(wait ? 200 : 202).send(desktops.operationToJson(answer))
    },
  )
}
