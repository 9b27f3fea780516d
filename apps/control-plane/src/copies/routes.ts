// Customers' routes for copies and their policies. Only HTTP.
import {
  copiesJson,
  copyPoliciesJson,
  copyPolicyBody,
  copyPolicyJson,
  copyPolicyName,
  id,
  operationJson,
  selectorText,
} from '@dormouse/contract'
import { z } from 'zod'
import type { Desktops } from '../desktops/service.ts'
import type { App } from '../http/app.ts'
import { callerGone, waitQuery } from '../http/requests.ts'
import type { Leadership } from '../leadership/leadership.ts'
import { customer } from '../principals/authentication.ts'
import type { Restores } from './restores.ts'
import type { Copies } from './service.ts'

export interface CopyRoutesOptions {
  copies: Copies
  restores: Restores
  desktops: Pick<Desktops, 'operationToJson' | 'settled'>
  leadership: Leadership
}

const tags = ['Desktops']
const desktop = z.object({ id })
const policy = z.object({ name: copyPolicyName })

export function copyRoutes(app: App, options: CopyRoutesOptions): void {
  const { copies, restores, desktops, leadership } = options
  app.get(
    '/desktops/:id/copies',
    {
      schema: {
        operationId: 'listCopies',
        right: 'see',
        tags,
        summary: 'List a desktop’s copies in vaults off its host, newest first',
        params: desktop,
        response: { 200: copiesJson },
        answers: { 200: 'Its copies' },
        problems: [404],
      },
    },
    async (request) => ({ copies: await copies.list(customer(request), request.params.id) }),
  )
  app.post(
    '/desktops/:id/copies/:copy/restore',
    {
      schema: {
        operationId: 'restoreCopy',
        right: 'destroy',
        tags,
        summary: 'Restore a copy in place of what the desktop has',
        description:
          'The desktop ends `hibernated` if the memory of the copy was not woken since, else `stopped`. It keeps what it has until the copy is whole on its host.',
        params: z.object({ id, copy: id }),
        querystring: waitQuery,
        response: { 200: operationJson, 202: operationJson },
        answers: { 200: 'The operation has settled', 202: 'The operation is queued' },
        problems: [404, 409],
      },
    },
    async (request, reply) => {
      leadership.require()
      const { id: desktopId, copy: copyId } = request.params
      const caller = customer(request)
      const operation = await restores.begin({ caller, desktopId, copyId, requestId: request.id })
      if (request.query.wait !== 'true') return reply.code(202).send(desktops.operationToJson(operation))
      return desktops.operationToJson(await desktops.settled(operation, callerGone(request, reply)))
    },
  )
  policyRoutes(app, options)
}

function policyRoutes(app: App, { copies, leadership }: CopyRoutesOptions): void {
  app.get(
    '/copy-policies',
    {
      schema: {
        operationId: 'listCopyPolicies',
        right: 'admin',
        tags,
        summary: 'List the organisation’s policies of copies',
        description:
          'The first by name that selects a desktop is its policy. A desktop that none selects has the operator’s.',
        response: { 200: copyPoliciesJson },
        answers: { 200: 'The policies, by name' },
      },
    },
    async (request) => ({ policies: await copies.policies(customer(request)) }),
  )

  app.put(
    '/copy-policies/:name',
    {
      schema: {
        operationId: 'putCopyPolicy',
        right: 'admin',
        tags,
        summary: 'Set when desktops are copied, and which copies are kept',
        params: policy,
        body: copyPolicyBody,
        response: { 200: copyPolicyJson },
        answers: { 200: 'The policy as it is now' },
        problems: [409],
      },
    },
    async (request) => {
      leadership.require()
      const { select, ...body } = request.body
      const written = select === undefined ? null : selectorText(select)
      return copies.putPolicy(customer(request), { name: request.params.name, select: written, ...body })
    },
  )

  app.delete(
    '/copy-policies/:name',
    {
      schema: {
        operationId: 'removeCopyPolicy',
        right: 'admin',
        tags,
        summary: 'Remove a policy of copies',
        params: policy,
        answers: { 204: 'It is removed' },
        problems: [404],
      },
    },
    async (request, reply) => {
      leadership.require()
      await copies.removePolicy(customer(request), request.params.name)
      return reply.code(204).send()
    },
  )
}
