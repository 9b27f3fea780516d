// Customers' routes into the guest. HTTP and nothing else.
import { execBody, execJson, id } from '@dormouse/contract'
import { z } from 'zod'
import type { App } from '../http/server.ts'
import { customer } from '../principals/door.ts'
import type { Guests } from './service.ts'

const params = z.object({ id })

export function guestRoutes(app: App, { guests }: { guests: Guests }): void {
  app.post('/desktops/:id/exec', { schema: { params, body: execBody, response: { 200: execJson } } }, (request) =>
    guests.exec(customer(request), request.params.id, request.body, request.id),
  )
}
