// Customers' routes for bulks. Only HTTP.
import { bulkBody, bulkJson, id, refuseField, selectorText } from '@dormouse/contract'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import type { App } from '../http/app.ts'
import { JsonList } from '../http/json-list.ts'
import { callerGone, fingerprint, idempotencyKey } from '../http/requests.ts'
import type { Leadership } from '../leadership/leadership.ts'
import { customer } from '../principals/authentication.ts'
import { type Bulks, rightOf, rowToJson, type Wish } from './service.ts'

export interface BulkRoutesOptions {
  bulks: Bulks
  leadership: Leadership
  onMismatch(): void
}

const params = z.object({ id })
const tags = ['Desktops']
const byAction = { action: rightOf }

function requireWhole({ action, select, ids, labels }: Wish): void {
  if (select === undefined && ids === undefined)
    refuseField('select', 'must be sent, or `ids`: no desktop is chosen by leaving both out')
  if (select !== undefined && ids !== undefined) refuseField('ids', 'is sent beside select; send one of them')
  if (action === 'label' && Object.keys(labels ?? {}).length === 0)
    refuseField('labels', 'must be sent with the action label, and name at least one')
  if (action !== 'label' && labels !== undefined) refuseField('labels', 'is only for the action label')
}

export function bulkRoutes(app: App, options: BulkRoutesOptions): void {
  const { bulks, leadership, onMismatch } = options
  app.post(
    '/desktops/bulk',
    {
      schema: {
        operationId: 'createBulk',
        right: byAction,
        tags,
        summary: 'Wake, hibernate, destroy or label many desktops',
        description:
          'The desktops are chosen now, by `select` or `ids`. The plan goes on by itself, some desktops at a time, each as by a request of its own.',
        body: bulkBody,
        keyed: 'organisation',
        response: { 200: bulkJson, 202: bulkJson },
        answers: { 200: 'With `dry_run`: what would be done', 202: 'The plan' },
        problems: [409],
      },
    },
    async (request, reply) => {
      const wish = request.body
      requireWhole(wish)
      const key = idempotencyKey(request)
      const caller = customer(request)
      if (wish.dry_run) return bulks.plan(caller, wish)
      leadership.require()
      const asked = { ...wish, dry_run: undefined, select: wish.select && selectorText(wish.select) }
      const { id, replay } = await bulks.start(caller, wish, key, fingerprint(asked))
      if (replay !== 'no') reply.header('idempotency-replayed', replay === 'same' ? 'true' : 'mismatch')
      if (replay === 'mismatch') onMismatch()
      // Not streamed: that may be refused when too much is, and the plan has begun.
      return reply.code(202).send(await bulks.show(caller, id))
    },
  )

  planRoutes(app, options)
}

function planRoutes(app: App, { bulks, leadership }: BulkRoutesOptions): void {
  app.get(
    '/desktops/bulk/:id',
    {
      schema: {
        operationId: 'getBulk',
        right: 'see',
        tags,
        summary: 'Read a bulk plan: a row for each desktop',
        params,
        response: { 200: bulkJson },
        answers: { 200: 'The plan as it stands now' },
        problems: [404],
      },
    },
    async (request, reply) => send(bulks, request, reply, request.params.id),
  )

  app.post(
    '/desktops/bulk/:id/cancel',
    {
      schema: {
        operationId: 'cancelBulk',
        right: byAction,
        tags,
        summary: 'Begin nothing more of a bulk plan',
        description: 'What was begun goes on.',
        params,
        response: { 200: bulkJson },
        answers: { 200: 'The plan as it stands now' },
        problems: [404],
      },
    },
    async (request, reply) => {
      leadership.require()
      await bulks.cancel(customer(request), request.params.id)
      return send(bulks, request, reply, request.params.id)
    },
  )
}

/** The plan as it stands now, streamed if it is long. */
async function send(bulks: Bulks, request: FastifyRequest, reply: FastifyReply, id: string): Promise<FastifyReply> {
  const caller = customer(request)
  // What is opened for a long one is closed by the stream, which a HEAD has not.
  const long = request.method === 'HEAD' ? undefined : await bulks.showLong(caller, id, callerGone(request, reply))
  if (!long) return reply.send(await bulks.show(caller, id))
  const head = `${JSON.stringify(long.head).slice(0, -1)},"desktops":[`
  const list = new JsonList({ head, pages: long.pages, toJson: rowToJson, tail: () => ']}' })
  return reply.type('application/json; charset=utf-8').send(list)
}
