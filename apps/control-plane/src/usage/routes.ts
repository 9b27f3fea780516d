// Customers' route for what they have used. HTTP and nothing else.
import { usageJson, usageQuery } from '@dormouse/contract'
import type { App } from '../http/server.ts'
import { customer } from '../principals/door.ts'
import type { Usage } from './service.ts'

export function usageRoutes(app: App, { usage }: { usage: Usage }): void {
  app.get('/usage', { schema: { querystring: usageQuery, response: { 200: usageJson } } }, (request) =>
    usage.query(customer(request), request.query),
  )
}
