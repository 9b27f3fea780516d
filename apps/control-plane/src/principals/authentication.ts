// The door of every authenticated scope: nobody passes without a principal of the right kind, nor too often.
import { refuse } from '@dormouse/contract'
import type { FastifyRequest, onRequestAsyncHookHandler } from 'fastify'
import { patienceMs } from '../db/pool.ts'
import type { Connections } from '../http/connections.ts'
import type { RateLimit } from '../http/rate-limit.ts'
import type { UnauthenticatedClients } from '../http/unauthenticated-clients.ts'
import type { Customer, Principal, Principals } from './service.ts'

declare module 'fastify' {
  interface FastifyRequest {
    principal: Principal | undefined
  }
}

export interface AuthenticationOptions {
  principals: Principals
  /** For those who showed a good credential. */
  callers: RateLimit
  /** For those who did not, or not lately. */
  strangers: UnauthenticatedClients
  connections: Connections
}

/** Lets customers in. An operator's key is no customer's: 401. */
export const customersOnly =
  (options: AuthenticationOptions): onRequestAsyncHookHandler =>
  async (request) => {
    const principal = await identify(request, options)
    if (principal.kind !== 'customer') refuse('unauthenticated')
  }

/** Lets operators in. A customer is known, and forbidden: 403. */
export const operatorsOnly =
  (options: AuthenticationOptions): onRequestAsyncHookHandler =>
  async (request) => {
    const principal = await identify(request, options)
    if (principal.kind !== 'operator') refuse('forbidden', 'this route needs an operator key')
  }

/**
 * A credential that was found good lately passes whatever others did from its address: many callers may share one. Any
 * other is counted by its address before it is looked up, and no longer once it is found good.
 */
async function identify(
  request: FastifyRequest,
  { principals, callers, strangers, connections }: AuthenticationOptions,
): Promise<Principal> {
  let isStranger = false
  const stranger = () => {
    isStranger = true
    strangers.count(request.raw)
  }
  // A mutation is told 503, and its caller asks again: nobody waits long for that.
  const { keyed, act } = request.routeOptions?.schema ?? {}
  const withinMs = keyed || act ? patienceMs.brief : patienceMs.contract
  const principal = await principals.authenticate(request.headers.authorization, { withinMs, stranger })
  if (isStranger) strangers.forgive(request.raw)
  request.principal = principal
  const caller = callerOf(request)
  callers.count(caller)
  connections.prove(request.raw, caller)
  return principal
}

/** By what the requests of one credential are counted together. */
export function callerOf({ principal }: FastifyRequest): string {
  if (principal?.kind === 'customer') return principal.subject ?? `jwt-of:${principal.orgId}`
  return principal?.subject ?? ''
}

/** The caller of a customer's route. */
export function customer(request: FastifyRequest): Customer {
  const { principal } = request
  return principal?.kind === 'customer' ? principal : refuse('unauthenticated')
}
