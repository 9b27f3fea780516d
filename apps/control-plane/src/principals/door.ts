// The door of every authenticated scope: nobody passes without a principal of the right kind.
import { refuse } from '@dormouse/contract'
import type { FastifyRequest, onRequestAsyncHookHandler } from 'fastify'
import type { Customer, Operator, Principal, Principals } from './service.ts'

declare module 'fastify' {
  interface FastifyRequest {
    principal: Principal | undefined
  }
}

/** Lets customers in. An operator's key is no customer's: 401. */
export const customersOnly =
  (principals: Principals): onRequestAsyncHookHandler =>
  async (request) => {
    const principal = await principals.authenticate(request.headers.authorization)
    if (principal.kind !== 'customer') refuse('unauthenticated', 'the credential is not valid')
    request.principal = principal
  }

/** Lets operators in. A customer is known, and forbidden: 403. */
export const operatorsOnly =
  (principals: Principals): onRequestAsyncHookHandler =>
  async (request) => {
    const principal = await principals.authenticate(request.headers.authorization)
    if (principal.kind !== 'operator') refuse('forbidden', 'this needs an operator’s key')
    request.principal = principal
  }

/** The caller of a customer's route. */
export function customer(request: FastifyRequest): Customer {
  const { principal } = request
  return principal?.kind === 'customer' ? principal : refuse('unauthenticated', 'the credential is not valid')
}

/** The caller of an operator's route. */
export function operator(request: FastifyRequest): Operator {
  const { principal } = request
  return principal?.kind === 'operator' ? principal : refuse('forbidden', 'this needs an operator’s key')
}
