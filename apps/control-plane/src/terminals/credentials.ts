// Authenticates a request for a WebSocket as other requests are: by credential, within the limits of clients.
import type { IncomingMessage } from 'node:http'
import { attachBearerPrefix, attachProtocol, attachWakePrefix, type WakeWish, wakeWishHeader } from '@dormouse/contract'
import { retryLimitMs } from '../db/pool.ts'
import type { Connections } from '../http/connections.ts'
import type { RateLimit } from '../http/rate-limit.ts'
import { wakeWishOf } from '../http/requests.ts'
import type { UnauthenticatedClients } from '../http/unauthenticated-clients.ts'
import { refuseOperator } from '../principals/authentication.ts'
import type { Customer, Principals } from '../principals/service.ts'

export interface CredentialLimits {
  callers: RateLimit
  strangers: UnauthenticatedClients
  connections: Connections
}

/** The customer who asks; refuses any other. From then on the socket counts for its credential. */
export async function customerOf(
  request: IncomingMessage,
  principals: Principals,
  { callers, strangers, connections }: CredentialLimits,
): Promise<Customer> {
  let isCounted = false
  const beforeLookUp = () => {
    isCounted = true
    strangers.count(request)
  }
  const options = { withinMs: retryLimitMs.contract, beforeLookUp }
  const principal = await principals.authenticate(authorizationOf(request), options)
  if (isCounted) strangers.forgive(request)
  if (principal.kind !== 'customer') return refuseOperator()
  const caller = principal.subject ?? `jwt-of:${principal.orgId}`
  callers.count(caller)
  connections.countByCredential(request, caller)
  return principal
}

/** The header, or the credential that a browser offers as a subprotocol. */
function authorizationOf({ headers }: IncomingMessage): string | undefined {
  if (headers.authorization !== undefined) return headers.authorization
  const offered = protocolsOf(headers['sec-websocket-protocol']).find((name) => name.startsWith(attachBearerPrefix))
  if (offered === undefined) return undefined
  return `Bearer ${Buffer.from(offered.slice(attachBearerPrefix.length), 'base64url').toString('latin1')}`
}

/** The header, or what a browser offers as a subprotocol. */
export function wakeWishOfUpgrade({ headers }: IncomingMessage): WakeWish | undefined {
  const offered = protocolsOf(headers['sec-websocket-protocol']).find((name) => name.startsWith(attachWakePrefix))
  if (offered === undefined) return wakeWishOf(headers)
  return wakeWishOf({ [wakeWishHeader.toLowerCase()]: offered.slice(attachWakePrefix.length), ...headers })
}

/** Never the one that carries the credential: the service would send it back. */
export const protocolFor = (offered: ReadonlySet<string>): string | false =>
  offered.has(attachProtocol) && attachProtocol

const protocolsOf = (header = ''): string[] => header.split(',').map((name) => name.trim())
