// Routes of the log of events: a stream of server-sent events, or a page as JSON. Only HTTP.
import {
  adminEventListJson,
  customerEventTypes,
  type EventType,
  eventListJson,
  eventTypes,
  id,
  refuse,
  refuseField,
  selector,
  unknownEventType,
} from '@dormouse/contract'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import { cursorOf, type Position, parseCursor } from '../events/cursors.ts'
import { CursorGone } from '../events/feed.ts'
import type { EventQuery } from '../events/store.ts'
import type { App } from '../http/app.ts'
import { sendEvents } from '../http/events.ts'
import { callerOf, customer } from '../principals/authentication.ts'
import { admittedBy, type Choice, chosen, type Scope } from '../principals/scope.ts'
import { eventToAdminJson, eventToJson, type Listeners, type Listening } from './service.ts'

const defaultLimit = 100

const typesOf = (types: readonly EventType[]) => {
  const type = z.enum(types)
  return z
    .union([type, z.array(type)], { error: unknownEventType(types) })
    .optional()
    .describe('Only events of this type; may be repeated')
}

const query = z.object({
  after: z
    .string()
    .max(40)
    .optional()
    .describe('Only events behind this cursor: the `id` of an event, or the `cursor` of a page'),
  limit: z.coerce
    .number()
    .int()
    .min(1)
    .max(1_000)
    .optional()
    .describe('Answer a page of at most so many events as JSON; without `after` it begins at the oldest'),
  desktop_id: id.optional().describe('Only events of this desktop'),
  select: selector
    .optional()
    .describe('Only events of desktops whose labels matched then, such as `team=qa,run!=42,env in (a,b),owner,!old`'),
})

const customersQuery = query.extend({ type: typesOf(customerEventTypes) })
const operatorsQuery = query.extend({
  type: typesOf(eventTypes),
  org_id: id.optional(),
  host_id: id.optional(),
})

export function eventRoutes(app: App, { listeners }: { listeners: Listeners }): void {
  app.get(
    '/events',
    {
      schema: {
        operationId: 'listEvents',
        right: 'see',
        tags: ['Events'],
        summary: 'Follow what changes, or read what has changed',
        description:
          'Without `limit`, a stream of server-sent events: what happened behind the cursor, then what happens; without a cursor, from now on. The cursor is `Last-Event-ID` or `after`. `data` is an Event, `id` is the cursor behind it. Blocks without data show every 15 s that the connection is alive. The service ends a stream with `event: end` and a reason; connect again with the last cursor. With `limit`, or where only `application/json` is accepted, a page. Events are kept for 7 days by default.',
        querystring: customersQuery,
        response: { 200: eventListJson },
        answers: {
          200: {
            what: 'The events, oldest first',
            stream: 'text/event-stream',
            headers: {
              'cache-control': 'Of a stream: `no-store`',
              'x-accel-buffering': 'Of a stream: `no`, so that a proxy passes each event on at once',
            },
          },
        },
        problems: [410],
      },
    },
    async (request, reply) => {
      const { orgId, subject, goodUntil, scope } = customer(request)
      const { desktop_id: desktopId = null, type, select: selector = null } = request.query
      const filter = {
        orgId,
        ...filterOf(chosen(scope, { selector, desktopId }), listOf(type)),
        reached: reachedBy(scope),
      }
      const listening = { orgId, subject, goodUntil, filter }
      return answer(request, reply, { listeners, listening, toJson: eventToJson })
    },
  )
}

export function eventAdminRoutes(app: App, { listeners }: { listeners: Listeners }): void {
  app.get(
    '/events',
    { schema: { querystring: operatorsQuery, response: { 200: adminEventListJson } } },
    async (request, reply) => {
      const { desktop_id: desktopId, org_id: orgId, host_id: hostId, type, select } = request.query
      const filter = { orgId, hostId, desktopId, types: listOf(type), selector: select }
      const listening = { orgId: null, subject: callerOf(request), goodUntil: null, filter }
      return answer(request, reply, { listeners, listening, toJson: eventToAdminJson })
    },
  )
}

/** What a credential is shown of the past: events of desktops that it reaches now. */
const reachedBy = (scope: Scope | null): EventQuery['reached'] =>
  scope === null ? undefined : (value) => admittedBy(scope, 'd', value)

/** Where nothing is chosen, no type is. */
const filterOf = (choice: Choice | undefined, types: EventType[] | undefined) => ({
  desktopId: choice?.desktopId ?? undefined,
  selector: choice?.selector ?? undefined,
  types: choice ? types : [],
})

const listOf = (given: EventType | EventType[] | undefined): EventType[] | undefined =>
  given === undefined ? undefined : [given].flat()

interface Answering<J> {
  listeners: Listeners
  listening: Listening
  toJson: (event: Parameters<typeof eventToJson>[0], lineage: string) => J
}

async function answer<J>(
  request: FastifyRequest,
  reply: FastifyReply,
  { listeners, listening, toJson }: Answering<J>,
): Promise<{ events: J[]; cursor: string; more: boolean }> {
  const { limit, after } = request.query as z.infer<typeof query>
  try {
    if (limit === undefined && !wantsJson(request) && request.method !== 'HEAD') {
      const stream = await listeners.open(listening, lastEventId(request) ?? positionOf('after', after))
      return sendEvents(reply, stream) as never
    }
    const page = await listeners.page(listening, positionOf('after', after), limit ?? defaultLimit)
    const { lineage } = page.position
    const events = page.events.map((event) => toJson(event, lineage))
    return { events, cursor: cursorOf(page.position), more: page.more }
  } catch (error) {
    if (error instanceof CursorGone) refuse('cursor_gone', undefined, { oldest_cursor: cursorOf(error.oldest) })
    throw error
  }
}

const wantsJson = ({ headers: { accept = '' } }: FastifyRequest): boolean =>
  /\bapplication\/json\b/i.test(accept) && !/\btext\/event-stream\b/i.test(accept)

/** A browser that reconnects sends it, and the `after` that it began with. */
const lastEventId = ({ headers }: FastifyRequest): Position | undefined =>
  positionOf('Last-Event-ID', [headers['last-event-id']].flat()[0])

function positionOf(field: string, text: string | undefined): Position | undefined {
  if (text === undefined || text === '') return undefined
  return parseCursor(text) ?? refuseField(field, 'must be the `id` of an event, or the `cursor` of a page')
}
