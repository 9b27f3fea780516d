// Customers' routes into the guest. HTTP and nothing else.
import { execBody, execJson, id } from '@dormouse/contract'
import { z } from 'zod'
import type { App } from '../http/server.ts'
import { customer } from '../principals/door.ts'
import type { Guests } from './service.ts'

const params = z.object({ id })

export function guestRoutes(app: App, { guests }: { guests: Guests }): void {
  app.post(
    '/desktops/:id/exec',
    {
      schema: {
        operationId: 'execInDesktop',
        tags: ['Guest'],
        summary: 'Run a command in an awake desktop',
        description: 'Only its own deadline ends it. What it leaves in the background lives on.',
        params,
        body: execBody,
        response: { 200: execJson },
        answers: { 200: 'The command has ended, with whatever exit code' },
        problems: [404, 409, 504],
      },
    },
    (request) => guests.exec(customer(request), request.params.id, request.body, request.id),
  )
}
