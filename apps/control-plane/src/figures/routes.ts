// Customers' route for what a desktop has used. Only HTTP.
import { id, metricsJson, metricsQuery } from '@dormouse/contract'
import { z } from 'zod'
import type { App } from '../http/app.ts'
import { customer } from '../principals/authentication.ts'
import type { Figures } from './service.ts'

export function figureRoutes(app: App, { figures }: { figures: Figures }): void {
  app.get(
    '/desktops/:id/metrics',
    {
      schema: {
        operationId: 'getMetrics',
        right: 'see',
        tags: ['Desktops'],
        summary: 'Read what a desktop has used of its processor, memory, disk and network',
        description:
          'Measured every 10 s while it is awake, and kept for 24 h on the host that it is on. Reading it wakes nothing, and is no activity.',
        params: z.object({ id }),
        querystring: metricsQuery,
        response: { 200: metricsJson },
        answers: { 200: 'A point for each step in which something was measured, and why the others have none' },
        problems: [404],
      },
    },
    async (request) => figures.of(customer(request), request.params.id, request.query, request.id),
  )
}
