// Operators' routes for hosts, and the route that enrols a host. Only HTTP.
import {
  createInviteBody,
  droppedJson,
  enrolBody,
  enrolledJson,
  hostJson,
  id,
  inviteJson,
  listedInviteJson,
  printable,
  refuseNotFound,
} from '@dormouse/contract'
import { z } from 'zod'
import type { App } from '../http/app.ts'
import { noteOf } from '../http/audit-trail.ts'
import type { Leadership } from '../leadership/leadership.ts'
import type { Hosts } from './service.ts'

const params = z.object({ host: printable(100).describe('Name or id of the host') })

export function hostAdminRoutes(app: App, { hosts, leadership }: { hosts: Hosts; leadership: Leadership }): void {
  app.post(
    '/hosts/invites',
    { schema: { act: 'host.invite', body: createInviteBody, response: { 201: inviteJson } } },
    async (request, reply) => {
      const { name, valid_secs: validSecs } = request.body
      return reply.code(201).send(await hosts.invite(name ?? null, validSecs ?? undefined, noteOf(request)))
    },
  )

  app.get(
    '/hosts/invites',
    { schema: { response: { 200: z.object({ invites: z.array(listedInviteJson) }) } } },
    async () => ({ invites: await hosts.listInvites() }),
  )

  app.delete(
    '/hosts/invites/:id',
    { schema: { act: 'host.invite-revoke', params: z.object({ id }) } },
    async (request, reply) => {
      await hosts.revokeInvite(request.params.id, noteOf(request))
      return reply.code(204).send()
    },
  )

  app.get('/hosts', { schema: { response: { 200: z.object({ hosts: z.array(hostJson) }) } } }, async () => ({
    hosts: await hosts.list(),
  }))

  for (const [verb, cordoned] of [
    ['cordon', true],
    ['uncordon', false],
  ] as const) {
    app.post(
      `/hosts/:host/${verb}`,
      { schema: { act: `host.${verb}`, params, response: { 200: hostJson } } },
      async (request) => {
        leadership.require()
        const note = noteOf(request)
        const id = await leadership.transaction((tx) => hosts.setCordoned(tx, request.params.host, cordoned, note))
        return (await hosts.list()).find((host) => host.id === id) ?? refuseNotFound()
      },
    )
  }
  app.post(
    '/hosts/:host/rotate-key',
    { schema: { act: 'host.rotate-key', params, response: { 200: z.object({ host_id: id }) } } },
    async (request) => ({ host_id: await hosts.rotateKey(request.params.host, noteOf(request)) }),
  )
  app.post(
    '/hosts/:host/drop-warm-copies',
    { schema: { act: 'host.drop-warm-copies', params, response: { 200: droppedJson } } },
    async (request) => ({ dropped: await hosts.dropWarmCopies(request.params.host, noteOf(request)) }),
  )
}

/** Needs an invitation instead of a credential. */
export function enrolRoutes(app: App, { hosts }: { hosts: Hosts }): void {
  app.post('/enrol', { schema: { body: enrolBody, response: { 201: enrolledJson } } }, async (request, reply) =>
    reply.code(201).send(await hosts.enrol(request.body)),
  )
}
