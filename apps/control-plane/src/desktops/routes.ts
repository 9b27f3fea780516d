// Routes for desktops and their operations. Only HTTP.
import {
  changeDesktopBody,
  createDesktopBody,
  type DesktopJson,
  deferredJson,
  desktopJson,
  desktopListJson,
  desktopName,
  desktopQuery,
  desktopState,
  hibernateBody,
  id,
  isId,
  type LastMetricsJson,
  mutationBody,
  operationJson,
  type RequestKind,
  refuse,
  refuseField,
  requestKinds,
  selector,
  selectorText,
  wakeBody,
  wakeOnBody,
} from '@dormouse/contract'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import type { Pool } from '../db/pool.ts'
import type { Hosts } from '../hosts/service.ts'
import type { App } from '../http/app.ts'
import { noteOf } from '../http/audit-trail.ts'
import { JsonList } from '../http/json-list.ts'
import { callerGone, fingerprint, idempotencyKey, waitQuery } from '../http/requests.ts'
import type { Leadership } from '../leadership/leadership.ts'
import { isSettled } from '../operations/store.ts'
import { customer } from '../principals/authentication.ts'
import { rightsOfChange } from './changes.ts'
import * as deferred from './deferred.ts'
import { operationRoutes } from './operation-routes.ts'
import type { Desktops, Replay } from './service.ts'
import { desktopToJson, type ListPosition, listOrders, shown } from './shown.ts'

export interface DesktopRoutesOptions {
  pool: Pool
  leadership: Leadership
  hosts: Pick<Hosts, 'idOf'>
  desktops: Desktops
  /** Counts replays with a different body. They are a bug in the client that a silent 200 would hide. */
  onMismatch(): void
}

const params = z.object({ id })
/** Longer lists are streamed while they are read. */
const atOnceMax = 1_000
const statesQuery = z
  .union([desktopState, z.array(desktopState)], { error: `must be ${desktopState.options.join(', ')}` })
  .optional()
  .describe('Only desktops in this state; may be repeated. Destroyed ones are listed only with `destroyed`')
const statesOf = (given: z.infer<typeof statesQuery>) => (given === undefined ? null : [...new Set([given].flat())])
/** Behind which desktop the next page begins: its id, or in a list by names its name and id. */
const listCursor = z
  .string()
  .refine((text) => isId(text.replace(/^[a-z0-9._-]{1,64},/, '')), 'must come from the `next` link of the page before')
const listQuery = z.object({
  state: statesQuery,
  name: desktopName.optional().describe('Only the desktop of this name'),
  select: selector
    .optional()
    .describe('Only desktops whose labels match, such as `team=qa,run!=42,env in (a,b),owner,!old`'),
  sort: z
    .enum(listOrders)
    .default('-created_at')
    .describe('The order; `-created_at`, the default, is the newest first. Desktops without a name come last'),
  limit: z.coerce.number().int().min(1).max(1_000).optional().describe('Page size; without it, the whole list'),
  cursor: listCursor.optional().describe('From the `next` link of the page before'),
})
type ListQuery = z.infer<typeof listQuery>

const positionOf = ({ sort, cursor }: ListQuery): ListPosition | null => {
  if (cursor === undefined) return null
  const comma = cursor.indexOf(',')
  if (comma >= 0 && sort !== 'name') refuseField('cursor', 'is of a list by names; send the `sort` of that list, too')
  return { id: cursor.slice(comma + 1).toLowerCase(), name: comma < 0 ? null : cursor.slice(0, comma) }
}

/** The link to the page behind this desktop, with the same parameters. */
function nextLink({ state, name, select, sort, limit }: ListQuery, last: ListPosition): string {
  const next = new URLSearchParams((statesOf(state) ?? []).map((one): [string, string] => ['state', one]))
  if (name !== undefined) next.set('name', name)
  if (select !== undefined) next.set('select', selectorText(select))
  if (sort !== '-created_at') next.set('sort', sort)
  next.set('limit', String(limit))
  next.set('cursor', sort === 'name' && last.name !== null ? `${last.name},${last.id}` : last.id)
  return `</v1/desktops?${next}>; rel="next"`
}

/** Marks a replayed answer with a header. */
function sayReplay(reply: FastifyReply, replay: Replay, onMismatch: () => void): void {
  if (replay !== 'no') reply.header('idempotency-replayed', replay === 'same' ? 'true' : 'mismatch')
  if (replay === 'mismatch') onMismatch()
}

interface CustomerRoutesOptions extends DesktopRoutesOptions {
  /** What the desktop has used lately; null if that is not known now. */
  lastMetrics(desktop: DesktopJson, requestId: string): Promise<LastMetricsJson | null>
}

export function desktopRoutes(app: App, options: CustomerRoutesOptions): void {
  const { desktops, leadership, onMismatch, lastMetrics } = options

  app.post(
    '/desktops',
    {
      schema: {
        operationId: 'createDesktop',
        right: 'create',
        tags: ['Desktops'],
        summary: 'Create a desktop',
        description: 'It is not awake yet. It uses no host until its first wake.',
        body: createDesktopBody,
        keyed: 'organisation',
        response: { 200: desktopJson, 201: desktopJson },
        answers: {
          200: 'The key was used by this organisation before, or `get_or_create` found the name: the existing desktop',
          201: 'The desktop that this request created',
        },
        problems: [403, 409],
      },
    },
    async (request, reply) => {
      const { image, ...body } = request.body
      if (image && body.image_version && image !== body.image_version)
        refuseField('image', 'is another name of image_version, and both are given and differ; send one of them')
      const key = idempotencyKey(request)
      leadership.require()
      const { desktop, replay, made } = await desktops.create(
        customer(request),
        request.body,
        key,
        // Two names of the same image give the same fingerprint.
        fingerprint({ ...body, image_version: image ?? body.image_version }),
      )
      sayReplay(reply, replay, onMismatch)
      return reply.code(made ? 201 : 200).send(desktopToJson(desktop))
    },
  )

  app.get(
    '/desktops',
    {
      schema: {
        operationId: 'listDesktops',
        right: 'see',
        tags: ['Desktops'],
        summary: 'List the organisation’s desktops',
        description: 'A snapshot of one moment. A response that is cut off is incomplete.',
        querystring: listQuery,
        response: { 200: desktopListJson },
        answers: { 200: { what: 'The desktops', headers: { link: 'With `limit`: the next page, as `rel="next"`' } } },
      },
    },
    async (request, reply) => {
      const { limit = null, select, name = null, sort: order } = request.query
      const caller = customer(request)
      const params = {
        states: statesOf(request.query.state),
        selector: select ?? null,
        name,
        order,
        after: positionOf(request.query),
      }
      const rows = await desktops.list(caller, { ...params, limit: (limit ?? atOnceMax) + 1 })
      if (limit === null && rows.length > atOnceMax && request.method !== 'HEAD') {
        const pages = await desktops.listAll(caller, params, callerGone(request, reply))
        const list = new JsonList({ head: '{"desktops":[', pages, toJson: shown, tail: () => ']}' })
        return reply.type('application/json; charset=utf-8').send(list as never)
      }
      if (limit !== null && rows.length > limit) {
        rows.length = limit
        reply.header('link', nextLink(request.query, rows[limit - 1]!))
      }
      return { desktops: rows }
    },
  )

  app.get(
    '/desktops/:id',
    {
      schema: {
        operationId: 'getDesktop',
        right: 'see',
        tags: ['Desktops'],
        summary: 'Read a desktop',
        params,
        querystring: desktopQuery,
        response: { 200: desktopJson },
        answers: { 200: 'The desktop; a destroyed one stays readable' },
        problems: [404],
      },
    },
    async (request) => {
      const desktop = await desktops.show(customer(request), request.params.id)
      if (request.query.include === undefined) return desktop
      return { ...desktop, metrics: await lastMetrics(desktop, request.id) }
    },
  )

  app.patch(
    '/desktops/:id',
    {
      schema: {
        operationId: 'changeDesktop',
        right: { field: rightsOfChange },
        tags: ['Desktops'],
        summary: 'Change a desktop’s name, labels, or when it hibernates by itself',
        description: 'What is not named stays. The idle time counts from a change of its time-out or policy on.',
        params,
        body: changeDesktopBody,
        response: { 200: desktopJson },
        answers: { 200: 'The desktop as changed' },
        problems: [404, 409],
      },
    },
    async (request) => {
      leadership.require()
      return desktopToJson(await desktops.change(customer(request), request.params.id, request.body))
    },
  )

  for (const kind of requestKinds) mutationRoute(app, kind, options)
  operationRoutes(app, options)

  app.post(
    '/desktops/:id/fork',
    {
      schema: {
        operationId: 'forkDesktop',
        right: null,
        tags: ['Desktops'],
        summary: 'Not implemented',
        description: 'Always 501, whatever the id.',
        params: z.object({ id: z.string() }),
        problems: [501],
      },
      // Runs right after the credential check, so the body is not read.
      onRequest: async () => noFork(),
    },
    noFork,
  )
}

const noFork = () => refuse('not_implemented', 'forking is not implemented; create another desktop')

const summaries: Record<RequestKind, string> = {
  wake: 'Wake a desktop: from its saved memory, from its disk, or the first time from its image',
  hibernate: 'Hibernate an awake desktop: its memory and disk are saved, and it uses no processor',
  destroy: 'Destroy a desktop and everything that belongs to it',
}

function mutationRoute(app: App, kind: RequestKind, options: DesktopRoutesOptions): void {
  const { desktops, leadership, onMismatch } = options
  const body = { wake: wakeBody, hibernate: hibernateBody, destroy: mutationBody }[kind]
  app.post(
    `/desktops/:id/${kind}`,
    {
      schema: {
        operationId: `${kind}Desktop`,
        right: kind === 'destroy' ? 'destroy' : 'power',
        tags: ['Desktops'],
        summary: summaries[kind],
        params,
        querystring: waitQuery,
        body,
        bodyOptional: true,
        keyed: 'desktop',
        response: { 200: operationJson, 202: operationJson },
        answers: {
          200: 'The operation has settled, or it is still `pending` or `running` after a wait of 120 s',
          202: 'The operation is queued',
        },
        problems: kind === 'wake' ? [403, 404, 409] : [404, 409],
      },
      preValidation: async (request) => {
        // Only a missing body is replaced: `null` is a body, and not a valid one.
        if (request.body === undefined) request.body = {}
      },
    },
    async (request, reply) => {
      const key = idempotencyKey(request)
      const { expected_generation = null, ...rest } = request.body as z.infer<typeof wakeBody>
      const discardMemory = rest.discard_memory ?? false
      const ensure = rest.ensure ?? false
      if (ensure && discardMemory)
        refuseField('ensure', 'must be left out with `discard_memory`: a desktop that is awake would keep its memory')
      leadership.require()
      const { operation, replay } = await desktops.request(customer(request), request.params.id, kind, {
        key,
        fingerprint: fingerprint({ kind, expected_generation, discardMemory, ensure: ensure || null }),
        requestId: request.id,
        expectedGeneration: expected_generation,
        discardMemory,
        ensure,
      })
      sayReplay(reply, replay, onMismatch)
      if (request.query.wait !== 'true') {
        return reply.code(isSettled(operation) ? 200 : 202).send(desktops.operationToJson(operation))
      }
      const settled = await desktops.settled(operation, callerGone(request, reply))
      if (settled.state === 'failed') {
        const { id: operation_id, error, error_code } = desktops.operationToJson(settled)
        refuse('operation_failed', error ?? undefined, { operation_id, cause_code: error_code ?? undefined })
      }
      return reply.code(200).send(desktops.operationToJson(settled))
    },
  )
}

/** Operators' routes: desktops of all organisations, deferred commands, hibernation, a first wake on a host of their choice. */
export function desktopAdminRoutes(app: App, options: DesktopRoutesOptions): void {
  const { pool, desktops, leadership, hosts } = options
  const query = z.object({
    state: statesQuery,
    host_id: id.optional(),
    org_id: id.optional(),
    limit: z.coerce.number().int().min(1).max(10_000).default(1_000),
  })
  app.get('/desktops', { schema: { querystring: query, response: { 200: desktopListJson } } }, async (request) => {
    const { state, host_id: hostId, org_id: orgId, limit } = request.query
    return { desktops: await desktops.listAny({ states: statesOf(state), hostId, orgId, limit }) }
  })

  app.get('/desktops/:id', { schema: { params, response: { 200: desktopJson } } }, async (request) =>
    desktops.showAny(request.params.id),
  )

  app.get(
    '/deferred-commands',
    {
      schema: {
        querystring: query.pick({ limit: true }),
        response: { 200: z.object({ deferred_commands: z.array(deferredJson) }) },
      },
    },
    async (request) => ({ deferred_commands: await deferred.list(pool, request.query.limit) }),
  )

  for (const kind of ['hibernate', 'destroy'] as const) {
    app.post(
      `/desktops/:id/${kind}`,
      {
        schema: {
          act: `desktop.${kind}`,
          params,
          querystring: waitQuery,
          response: { 200: operationJson, 202: operationJson },
        },
      },
      async (request, reply) => {
        leadership.require()
        return requestAsOperator(options, request, reply, kind)
      },
    )
  }

  app.post(
    '/desktops/:id/wake',
    {
      schema: {
        act: 'desktop.wake',
        params,
        querystring: waitQuery,
        body: wakeOnBody,
        response: { 200: operationJson, 202: operationJson },
      },
    },
    async (request, reply) => {
      leadership.require()
      const onHost = await hosts.idOf(pool, request.body.host)
      return requestAsOperator(options, request, reply, 'wake', onHost)
    },
  )
}

type WaitRequest = FastifyRequest<{ Params: { id: string }; Querystring: z.infer<typeof waitQuery> }>

async function requestAsOperator(
  { desktops }: DesktopRoutesOptions,
  request: WaitRequest,
  reply: FastifyReply,
  kind: RequestKind,
  onHost?: string,
): Promise<FastifyReply> {
  const transition = {
    key: null,
    fingerprint: fingerprint({}),
    requestId: request.id,
    expectedGeneration: null,
    discardMemory: false,
    ...(onHost && { onHost }),
  }
  const { operation } = await desktops.requestAsOperator(request.params.id, kind, transition, noteOf(request))
  const wait = request.query.wait === 'true'
  const answer = wait ? await desktops.settled(operation, callerGone(request, reply)) : operation
  return reply.code(wait ? 200 : 202).send(desktops.operationToJson(answer))
}
