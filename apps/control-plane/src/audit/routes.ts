// Operators' view of the audit log. Only HTTP.
import { auditJson, printable } from '@dormouse/contract'
import { z } from 'zod'
import { type Pool, retryWhileUnavailable } from '../db/pool.ts'
import type { App } from '../http/app.ts'
import { auditToJson, list } from './store.ts'

const text = printable(200)

const query = z.object({
  limit: z.coerce.number().int().min(1).max(1_000).default(100),
  cursor: z
    .string()
    .regex(/^\d{1,15}$/, 'must come from the `next` link of the page before')
    .transform(Number)
    .optional(),
  subject: text.optional(),
  actor: text.optional().describe('As in the entries, or the id or the name of a key'),
  action: text.optional(),
  since: z.iso.datetime({ offset: true }).optional(),
  until: z.iso.datetime({ offset: true }).optional(),
})

export function auditRoutes(app: App, { pool }: { pool: Pool }): void {
  app.get('/audit', { schema: { querystring: query, response: { 200: auditJson } } }, async (request, reply) => {
    const { limit, cursor = null, ...filters } = request.query
    const { subject = null, actor = null, action = null, since = null, until = null } = filters
    const wish = { before: cursor, subject, actor, action, since, until, limit: limit + 1 }
    const rows = await retryWhileUnavailable(() => list(pool, wish))
    if (rows.length > limit) {
      rows.length = limit
      const next = new URLSearchParams({ ...filters, limit: `${limit}`, cursor: `${rows.at(-1)!.id}` })
      reply.header('link', `</admin/v1/audit?${next}>; rel="next"`)
    }
    return { entries: rows.map(auditToJson) }
  })
}
