// The authentication hooks: a request needs a principal of the right kind, and must be within its rate limit.
import { refuse } from '@dormouse/contract'
import type { FastifyRequest, onRequestHookHandler } from 'fastify'
import { retryLimitMs } from '../db/pool.ts'
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
  /** Counts authenticated requests, by credential. */
  callers: RateLimit
  /** Counts all others, by address. */
  strangers: UnauthenticatedClients
  connections: Connections
  /** Waits hardly for an unavailable database, and then trusts a key that was verified lately. */
  isForMonitoring?: boolean
}

/** Requires a customer. An operator key gets 401. */
export const customersOnly = (options: AuthenticationOptions): onRequestHookHandler =>
  requiring(options, ({ kind }) => {
    if (kind !== 'customer') refuseOperator()
  })

/** Its holder may learn that the key is valid: operators' routes show it too. */
export const refuseOperator = (): never =>
  refuse(
    'unauthenticated',
    'an operator key is not valid on this route; send an API key (`svc_sk_…`) or an access token of an organisation',
  )

/** Requires an operator. A customer gets 403, and so does a key that reads only metrics, except for those. */
export const operatorsOnly = (options: AuthenticationOptions): onRequestHookHandler =>
  requiring(options, (principal) => {
    if (principal.kind !== 'operator')
      refuse('forbidden', 'this route is for operators; send an operator key (`svc_op_…`)')
    if (principal.role === 'metrics' && !options.isForMonitoring)
      refuse('forbidden', 'this key reads metrics and nothing else; send the key of an operator')
  })

/** A credential that is trusted without a look-up passes in the same turn: at every request, promises cost as much as the rest. */
function requiring(options: AuthenticationOptions, check: (principal: Principal) => void): onRequestHookHandler {
  return (request, _reply, done) => {
    const trusted = options.principals.trusted(request.headers.authorization)
    if (!trusted) return identify(request, options).then(check)
    admit(request, trusted, options)
    check(trusted)
    done()
  }
}

/** Counts a request of this principal. */
function admit(
  request: FastifyRequest,
  principal: Principal,
  { callers, connections }: Pick<AuthenticationOptions, 'callers' | 'connections'>,
): void {
  request.principal = principal
  const caller = callerOf(request)
  callers.count(caller)
  connections.countByCredential(request.raw, caller)
}

/**
 * A credential that was verified lately is not counted by its address, which many clients may share. Any other is counted by
 * its address before the look-up, and the count is taken back once it is verified.
 */
async function identify(request: FastifyRequest, options: AuthenticationOptions): Promise<Principal> {
  const { principals, strangers, isForMonitoring = false } = options
  let isCounted = false
  const beforeLookUp = () => {
    isCounted = true
    strangers.count(request.raw)
  }
  // A mutation gets 503 soon and is retried by its client, so it does not wait long for the database.
  const { keyed, act } = request.routeOptions?.schema ?? {}
  const withinMs = isForMonitoring ? 0 : keyed || act ? retryLimitMs.brief : retryLimitMs.contract
  const how = { withinMs, beforeLookUp, trustsLately: isForMonitoring }
  const principal = await principals.authenticate(request.headers.authorization, how)
  if (isCounted) strangers.forgive(request.raw)
  admit(request, principal, options)
  return principal
}

/** The name by which the requests of one credential are counted. */
export function callerOf({ principal }: FastifyRequest): string {
  if (principal?.kind === 'customer') return principal.subject ?? `jwt-of:${principal.orgId}`
  return principal?.subject ?? ''
}

/** The customer of an authenticated request. */
export function customer(request: FastifyRequest): Customer {
  const { principal } = request
  return principal?.kind === 'customer' ? principal : refuse('unauthenticated')
}
