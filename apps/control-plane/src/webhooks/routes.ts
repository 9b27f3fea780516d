// Customers' routes for webhooks. Only HTTP.
import {
  changeWebhookBody,
  createdWebhookJson,
  createWebhookBody,
  deliveryJson,
  deliveryListJson,
  deliveryState,
  id,
  redeliverBody,
  redeliveredJson,
  rotateWebhookBody,
  selectorText,
  webhookJson,
  webhookListJson,
} from '@dormouse/contract'
import { z } from 'zod'
import type { App } from '../http/app.ts'
import type { Leadership } from '../leadership/leadership.ts'
import { customer } from '../principals/authentication.ts'
import type { Webhooks } from './service.ts'

export interface WebhookRoutesOptions {
  webhooks: Webhooks
  leadership: Leadership
}

const params = z.object({ id })
const deliveryParams = z.object({ id, delivery: id })
const defaultKeepSecs = 86_400
const defaultLimit = 50
const listQuery = z.object({
  state: deliveryState.optional().describe('Only deliveries in this state'),
  limit: z.coerce.number().int().min(1).max(100).default(defaultLimit).describe('Page size'),
  cursor: id.optional().describe('From the `next` link of the page before'),
})
const tags = ['Webhooks']

export function webhookRoutes(app: App, options: WebhookRoutesOptions): void {
  const { webhooks, leadership } = options

  app.post(
    '/webhooks',
    {
      schema: {
        operationId: 'createWebhook',
        right: 'admin',
        tags,
        summary: 'Send events to a URL',
        description:
          'Each event from now on is sent with POST, after the Standard Webhooks specification: at least once, retried for three days, and then the webhook is disabled. Events may arrive in another order; `sequence` in the body counts them.',
        body: createWebhookBody,
        response: { 201: createdWebhookJson },
        answers: { 201: 'The webhook, and its secret: it is shown only here' },
        problems: [409],
      },
    },
    async (request, reply) => {
      leadership.require()
      const { url, types = null, select, signature } = request.body
      const selector = select ? selectorText(select) : null
      const made = await webhooks.create(customer(request), { url, types, selector, signature: signature ?? 'v1' })
      return reply.code(201).send(made)
    },
  )

  app.get(
    '/webhooks',
    {
      schema: {
        operationId: 'listWebhooks',
        right: 'admin',
        tags,
        summary: 'List the organisation’s webhooks, newest first',
        response: { 200: webhookListJson },
        answers: { 200: 'All of them' },
      },
    },
    async (request) => ({ webhooks: await webhooks.list(customer(request)) }),
  )

  app.get(
    '/webhooks/:id',
    {
      schema: {
        operationId: 'getWebhook',
        right: 'admin',
        tags,
        summary: 'Read a webhook',
        params,
        response: { 200: webhookJson },
        answers: { 200: 'The webhook' },
        problems: [404],
      },
    },
    async (request) => webhooks.show(customer(request), request.params.id),
  )

  changeRoutes(app, options)
  secretRoutes(app, options)
  deliveryRoutes(app, options)
  redeliveryRoutes(app, options)
}

function changeRoutes(app: App, { webhooks, leadership }: WebhookRoutesOptions): void {
  app.patch(
    '/webhooks/:id',
    {
      schema: {
        operationId: 'changeWebhook',
        right: 'admin',
        tags,
        summary: 'Change, disable or enable a webhook',
        description: 'Another URL holds for each attempt from now on, other types for each event.',
        params,
        body: changeWebhookBody,
        response: { 200: webhookJson },
        answers: { 200: 'The webhook as it is now' },
        problems: [404],
      },
    },
    async (request) => {
      leadership.require()
      return webhooks.change(customer(request), request.params.id, request.body)
    },
  )

  app.delete(
    '/webhooks/:id',
    {
      schema: {
        operationId: 'deleteWebhook',
        right: 'admin',
        tags,
        summary: 'Remove a webhook',
        params,
        answers: { 204: 'Nothing more is sent to it. Attempts in flight end' },
        problems: [404],
      },
    },
    async (request, reply) => {
      leadership.require()
      await webhooks.remove(customer(request), request.params.id)
      return reply.code(204).send()
    },
  )
}

function secretRoutes(app: App, { webhooks, leadership }: WebhookRoutesOptions): void {
  app.post(
    '/webhooks/:id/rotate-secret',
    {
      schema: {
        operationId: 'rotateWebhookSecret',
        right: 'admin',
        tags,
        summary: 'Replace a webhook’s secret or key',
        description: 'For a while each delivery is signed with the new one and with those of before.',
        params,
        body: rotateWebhookBody,
        bodyOptional: true,
        response: { 200: createdWebhookJson },
        answers: { 200: 'The webhook, and its new secret: it is shown only here' },
        problems: [404],
      },
      preValidation: async (request) => {
        request.body ??= {}
      },
    },
    async (request) => {
      leadership.require()
      const keepMs = (request.body.keep_old_secs ?? defaultKeepSecs) * 1_000
      return webhooks.rotate(customer(request), request.params.id, keepMs)
    },
  )

  app.post(
    '/webhooks/:id/test',
    {
      schema: {
        operationId: 'testWebhook',
        right: 'admin',
        tags,
        summary: 'Send a test to a webhook',
        description: 'An event of the type `webhook.test`, which is tried once.',
        params,
        response: { 202: deliveryJson },
        answers: { 202: 'The delivery; read it again for its outcome' },
        problems: [404, 409],
      },
    },
    async (request, reply) => {
      leadership.require()
      return reply.code(202).send(await webhooks.test(customer(request), request.params.id))
    },
  )
}

function deliveryRoutes(app: App, { webhooks }: WebhookRoutesOptions): void {
  app.get(
    '/webhooks/:id/deliveries',
    {
      schema: {
        operationId: 'listWebhookDeliveries',
        right: 'admin',
        tags,
        summary: 'List the deliveries of a webhook, newest first',
        params,
        querystring: listQuery,
        response: { 200: deliveryListJson },
        answers: { 200: { what: 'A page of deliveries', headers: { link: 'The next page, as `rel="next"`' } } },
        problems: [404],
      },
    },
    async (request, reply) => {
      const { state = null, limit, cursor = null } = request.query
      const query = { state, before: cursor, limit: limit + 1 }
      const rows = await webhooks.listDeliveries(customer(request), request.params.id, query)
      if (rows.length > limit) {
        rows.length = limit
        const next = new URLSearchParams({ ...(state && { state }), limit: String(limit), cursor: rows[limit - 1]!.id })
        reply.header('link', `</v1/webhooks/${request.params.id}/deliveries?${next}>; rel="next"`)
      }
      return { deliveries: rows }
    },
  )

  app.get(
    '/webhooks/:id/deliveries/:delivery',
    {
      schema: {
        operationId: 'getWebhookDelivery',
        right: 'admin',
        tags,
        summary: 'Read a delivery',
        params: deliveryParams,
        response: { 200: deliveryJson },
        answers: { 200: 'The delivery and its attempts' },
        problems: [404],
      },
    },
    async (request) => webhooks.showDelivery(customer(request), request.params.id, request.params.delivery),
  )
}

function redeliveryRoutes(app: App, { webhooks, leadership }: WebhookRoutesOptions): void {
  app.post(
    '/webhooks/:id/deliveries/:delivery/redeliver',
    {
      schema: {
        operationId: 'redeliverWebhookDelivery',
        right: 'admin',
        tags,
        summary: 'Send a delivery again',
        params: deliveryParams,
        response: { 202: deliveryJson },
        answers: { 202: 'It is due now, with the same `webhook-id` and all attempts before it' },
        problems: [404, 409],
      },
    },
    async (request, reply) => {
      leadership.require()
      const { id: webhook, delivery } = request.params
      return reply.code(202).send(await webhooks.redeliver(customer(request), webhook, delivery))
    },
  )

  app.post(
    '/webhooks/:id/redeliver',
    {
      schema: {
        operationId: 'redeliverWebhookDeliveries',
        right: 'admin',
        tags,
        summary: 'Send all deliveries since a time again',
        params,
        body: redeliverBody,
        response: { 202: redeliveredJson },
        answers: { 202: 'They are due now' },
        problems: [404, 409],
      },
    },
    async (request, reply) => {
      leadership.require()
      return reply.code(202).send(await webhooks.redeliverSince(customer(request), request.params.id, request.body))
    },
  )
}
