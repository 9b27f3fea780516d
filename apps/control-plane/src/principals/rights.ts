// Holds customers' routes to the rights of credentials. A route names the right that it needs, or it is not registered. The
// rights travel with the credential, so a check reads nothing.
import { Refusal, type Right, refusals } from '@dormouse/contract'
import type { App } from '../http/app.ts'
import { idempotencyKey } from '../http/requests.ts'
import { customer } from './authentication.ts'
import type { Customer } from './service.ts'

declare module 'fastify' {
  interface FastifySchema {
    /** What the credential must be allowed; null if any valid one will do. */
    right?: Right | RightByField | RightByAction | null
  }
}

/** A change needs the right of each field that its body has. */
export interface RightByField {
  field: Readonly<Record<string, Right>>
}

/** The right of the body's `action`. Without a body one of these, until the service knows which. */
export interface RightByAction {
  action: Readonly<Record<string, Right>>
}

/** Applies to every route that is registered in the scope from now on: after its syntax, before anything is looked up. */
export function requireRights(scope: App): void {
  scope.addHook('onRoute', ({ method, url, schema }) => {
    if (schema?.right === undefined) throw new Error(`${method} ${url} names no right`)
  })
  scope.addHook('preHandler', (request, _reply, done) => {
    const { right, keyed } = request.routeOptions.schema ?? {}
    if (right) {
      // It is part of the syntax.
      if (keyed) idempotencyKey(request)
      requireOf(customer(request), right, request.body)
    }
    done()
  })
}

function requireOf(caller: Customer, right: Right | RightByField | RightByAction, body: unknown): void {
  for (const one of rightsNeeded(caller, right, body)) requireRight(caller, one)
}

function rightsNeeded({ can }: Customer, right: Right | RightByField | RightByAction, body: unknown): Iterable<Right> {
  if (typeof right === 'string') return [right]
  if ('field' in right) return rightsOf(right.field, body)
  const { action } = (body ?? {}) as { action?: string }
  const those = Object.values(right.action)
  return [right.action[action ?? ''] ?? those.find((one) => can?.includes(one)) ?? those[0]!]
}

/** Refuses if the credential does not allow this. */
export function requireRight({ can }: Pick<Customer, 'can'>, right: Right): void {
  if (can !== null && !can.includes(right)) throw notAllowed(right)
}

export const notAllowed = (right: Right, why: string = refusals.not_allowed.detail({ right })): Refusal =>
  new Refusal('not_allowed', why, { right })

/** The rights that a body's fields need, each once, in the order of the table. */
function rightsOf(byField: Readonly<Record<string, Right>>, body: unknown): Set<Right> {
  const given = Object.keys(byField).filter((field) => (body as Record<string, unknown>)[field] !== undefined)
  // What changes nothing still answers the desktop.
  return new Set(given.length === 0 ? ['see'] : given.map((field) => byField[field]!))
}
