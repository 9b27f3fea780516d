// Limits on clients that apply before any route: requests per second, connections, and bytes kept for them.
import type { Log } from '@dormouse/process'
import type { Config } from './config.ts'
import { Addresses } from './http/addresses.ts'
import { Connections } from './http/connections.ts'
import { InFlightBytes } from './http/in-flight-bytes.ts'
import { RateLimit } from './http/rate-limit.ts'
import { sendRawProblem } from './http/raw-responses.ts'
import { UnauthenticatedClients } from './http/unauthenticated-clients.ts'

const mib = 1024 * 1024
const tooManyConnections = { status: 429, detail: 'too many connections; close some, or send a credential on them' }

export type ClientLimits = ReturnType<typeof clientLimits>

/** The counters of this replica. Closing a connection releases the bytes that are kept for it. */
export function clientLimits(config: Config, log: Log) {
  const addresses = new Addresses(config.trustedProxies)
  const connections = new Connections({
    limits: {
      perAddress: config.maxConnectionsPerAddress,
      perCredential: config.maxConnectionsPerCredential,
      total: config.maxConnections,
    },
    addresses,
    evict: (socket) => sendRawProblem(socket, tooManyConnections, log),
    over: (request) => heldBytes.release(request),
  })
  const heldBytes = new InFlightBytes({
    limits: {
      perAddress: config.maxHeldMiBPerAddress * mib,
      perCredential: config.maxHeldMiBPerCredential * mib,
      total: config.maxHeldMiB * mib,
    },
    ownerOf: (request) => connections.ownerOf(request),
    evict: (socket) => connections.evict(socket),
  })
  const unauthenticated = new RateLimit(config.rateLimitStrangersPerSecond)
  const strangers = new UnauthenticatedClients(addresses, unauthenticated, connections)
  const callers = new RateLimit(config.rateLimitPerSecond)
  return { connections, heldBytes, strangers, callers }
}
