// The customers' route for input. HTTP and nothing else.
import { id, inputBody, inputJson } from '@dormouse/contract'
import { z } from 'zod'
import type { App } from '../http/app.ts'
import { fingerprint, idempotencyKey } from '../http/requests.ts'
import { customer } from '../principals/authentication.ts'
import type { Inputs } from './service.ts'

const params = z.object({ id })

export interface InputRoutesOptions {
  inputs: Inputs
  /** Counts replays with another body. */
  onMismatch(): void
}

export function inputRoutes(app: App, { inputs, onMismatch }: InputRoutesOptions): void {
  app.post(
    '/desktops/:id/input',
    {
      schema: {
        operationId: 'sendInput',
        right: 'use',
        tags: ['Guest'],
        wakes: 'input',
        summary: 'Type and point in an awake desktop',
        description:
          'A batch of actions, in order. Nothing is done before all of it is valid. It borrows the claim `control`, for which people and programs compete. Keys and buttons that it still holds at its end are released. With an Idempotency-Key it is done at most once; the response to a repeated request has no picture.',
        params,
        body: inputBody,
        keyed: 'desktop',
        response: { 200: inputJson },
        answers: { 200: 'What became of the batch' },
        problems: [403, 404, 409, 501],
      },
    },
    async (request, reply) => {
      const key = idempotencyKey(request)
      const given = { key, fingerprint: fingerprint(request.body), requestId: request.id }
      const { json, replay } = await inputs.perform(customer(request), request.params.id, request.body, given)
      if (replay !== 'no') reply.header('idempotency-replayed', replay === 'same' ? 'true' : 'mismatch')
      if (replay === 'mismatch') onMismatch()
      return json
    },
  )
}
