// Customers' route for what they have used. HTTP and nothing else.
import { usageJson, usageQuery } from '@dormouse/contract'
import type { App } from '../http/server.ts'
import { customer } from '../principals/door.ts'
import type { Usage } from './service.ts'

export function usageRoutes(app: App, { usage }: { usage: Usage }): void {
  app.get(
    '/usage',
    {
      schema: {
        operationId: 'getUsage',
        tags: ['Usage'],
        summary: 'Sum up what the organisation’s desktops used between two times',
        querystring: usageQuery,
        response: { 200: usageJson },
        answers: { 200: 'The seconds of each desktop, and their sums' },
      },
    },
    (request) => usage.query(customer(request), request.query),
  )
}
