// Who asks what of a guest, from the request.
import type { FastifyRequest } from 'fastify'
import { customer } from '../principals/authentication.ts'
import { awakenOf } from './awaken.ts'
import type { Asking } from './calls.ts'

export const askingOf = (request: FastifyRequest): Asking => ({
  caller: customer(request),
  desktopId: (request.params as { id: string }).id,
  requestId: request.id,
  awaken: awakenOf(request),
})
