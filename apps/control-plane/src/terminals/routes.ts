// The route of an exec's WebSocket for requests that are no upgrade, and for the OpenAPI document. Only HTTP.
import { attachQuery, id, refuse } from '@dormouse/contract'
import { z } from 'zod'
import type { Execs } from '../guest/execs.ts'
import type { App } from '../http/app.ts'
import { customer } from '../principals/authentication.ts'

const params = z.object({ id, exec: id.describe('Id of the exec') })

export function attachRoutes(app: App, { execs }: { execs: Pick<Execs, 'get'> }): void {
  app.get(
    '/desktops/:id/execs/:exec/attach',
    {
      exposeHeadRoute: false,
      schema: {
        operationId: 'attachExec',
        right: 'use',
        tags: ['Guest'],
        wakes: 'exec',
        summary: 'Join an exec over a WebSocket',
        description:
          'Output, input, sizes, signals and the end over one socket, from an offset: no byte is lost or repeated by attaching again. The first byte of each binary frame is its channel: 0 stdin, 1 stdout, 2 stderr, 3 control (JSON). A client that cannot send headers offers the subprotocols `dormouse.exec.v1` and `dormouse.bearer.` followed by its credential in base64url. Close codes are 1000 after the end, and those of a screen.',
        params,
        querystring: attachQuery,
        answers: { 101: 'The WebSocket is open; its first message is `attached`' },
        problems: [404, 409, 426, 504],
      },
    },
    async (request) => {
      const asking = { caller: customer(request), desktopId: request.params.id, requestId: request.id }
      await execs.get(asking, request.params.exec)
      return refuse('upgrade_required')
    },
  )
}
