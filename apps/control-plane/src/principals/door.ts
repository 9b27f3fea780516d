// The door of every authenticated scope: nobody passes without a principal of the right kind, nor too often.
import { Refusal, refuse } from '@dormouse/contract'
import type { FastifyReply, FastifyRequest, onRequestAsyncHookHandler } from 'fastify'
import { patienceMs } from '../db/pool.ts'
import type { RateLimit } from '../http/rate-limit.ts'
import type { Customer, Principal, Principals } from './service.ts'

declare module 'fastify' {
  interface FastifyRequest {
    principal: Principal | undefined
  }
}

export interface DoorOptions {
  principals: Principals
  /** For those who showed a good credential. */
  callers: RateLimit
  /** For those who did not. */
  strangers: RateLimit
}

/** Lets customers in. An operator's key is no customer's: 401. */
export const customersOnly =
  (options: DoorOptions): onRequestAsyncHookHandler =>
  async (request, reply) => {
    const principal = await identify(request, reply, options)
    if (principal.kind !== 'customer') refuse('unauthenticated', 'the credential is not valid')
  }

/** Lets operators in. A customer is known, and forbidden: 403. */
export const operatorsOnly =
  (options: DoorOptions): onRequestAsyncHookHandler =>
  async (request, reply) => {
    const principal = await identify(request, reply, options)
    if (principal.kind !== 'operator') refuse('forbidden', 'this needs an operator’s key')
  }

/** A good credential passes whatever others did from its address: many callers may share one. */
async function identify(request: FastifyRequest, reply: FastifyReply, options: DoorOptions): Promise<Principal> {
  // A mutation is told 503, and its caller asks again: nobody waits long for that.
  const withinMs = request.routeOptions?.schema?.keyed ? patienceMs.brief : patienceMs.contract
  try {
    request.principal = await options.principals.authenticate(request.headers.authorization, withinMs)
  } catch (error) {
    if (error instanceof Refusal && error.code === 'unauthenticated') await options.strangers(request, reply)
    throw error
  }
  await options.callers(request, reply)
  return request.principal
}

/** By what the requests of one credential are counted together. */
export function callerOf({ principal }: FastifyRequest): string {
  if (principal?.kind === 'customer') return principal.subject ?? `jwt-of:${principal.orgId}`
  return principal?.subject ?? ''
}

/** The caller of a customer's route. */
export function customer(request: FastifyRequest): Customer {
  const { principal } = request
  return principal?.kind === 'customer' ? principal : refuse('unauthenticated', 'the credential is not valid')
}
