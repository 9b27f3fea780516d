// Customers' route for their usage. Only HTTP.
import { usageJson, usageQuery } from '@dormouse/contract'
import type { Pages } from '../db/long-reads.ts'
import type { App } from '../http/app.ts'
import { JsonList } from '../http/json-list.ts'
import { callerGone } from '../http/requests.ts'
import type { UsedMs } from '../ledger/store.ts'
import { customer } from '../principals/authentication.ts'
import { inSeconds, type Span, type Usage, usedToJson } from './service.ts'
import { Totals } from './totals.ts'

export function usageRoutes(app: App, { usage }: { usage: Usage }): void {
  app.get(
    '/usage',
    {
      schema: {
        operationId: 'getUsage',
        right: 'see',
        tags: ['Usage'],
        summary: 'Sum up what the organisation’s desktops used between two times',
        querystring: usageQuery,
        response: { 200: usageJson },
        answers: { 200: 'The seconds of each desktop, and their sums' },
      },
    },
    async (request, reply) => {
      const caller = customer(request)
      const span = usage.span(request.query)
      const { select = null } = request.query
      const whole = await usage.query(caller, span, select)
      if (whole) return whole
      if (request.method === 'HEAD') return { ...span, desktops: [], totals: [] }
      const pages = await usage.queryAll(caller, span, select, callerGone(request, reply))
      return reply.type('application/json; charset=utf-8').send(writeUsage(span, pages) as never)
    },
  )
}

/** The sums come last: they are known once every row has been written. */
function writeUsage({ start, end }: Span, pages: Pages<UsedMs>): JsonList<UsedMs> {
  const totals = new Totals()
  return new JsonList({
    head: `{"start":${start},"end":${end},"desktops":[`,
    pages,
    toJson: (row) => {
      totals.add(row)
      return usedToJson(row)
    },
    tail: () => `],"totals":${JSON.stringify(totals.rows.map(inSeconds))}}`,
  })
}
