// Those who have not shown that they may come in: counted by their address, at every door, before they cost anything.
import type { IncomingMessage } from 'node:http'
import { Refusal } from '@dormouse/contract'
import { UpgradeRefusal } from '@dormouse/link'
import type { Addresses } from './addresses.ts'
import type { App } from './app.ts'
import type { Connections } from './connections.ts'
import { rateLimitHeaders } from './problems.ts'
import type { RateLimit } from './rate-limit.ts'

export class UnauthenticatedClients {
  readonly #addresses: Addresses
  readonly #limit: RateLimit
  readonly #connections: Connections

  constructor(addresses: Addresses, limit: RateLimit, connections: Connections) {
    this.#addresses = addresses
    this.#limit = limit
    this.#connections = connections
  }

  /** By what it is counted. */
  addressOf(request: IncomingMessage): string {
    return this.#addresses.of(request)
  }

  /** Counts one; throws `rate_limited` where its address has sent too many. */
  count(request: IncomingMessage): void {
    this.#limit.count(this.addressOf(request))
    this.#connections.arrive(request)
  }

  /** It was none. */
  forgive(request: IncomingMessage): void {
    this.#limit.forgive(this.addressOf(request))
  }

  /** Its socket is a host's, of which there are only as many as this replica asked for. */
  prove(request: IncomingMessage, hostId: string): void {
    this.#connections.prove(request, `host:${hostId}`, Number.POSITIVE_INFINITY)
  }

  /** Counts everybody who comes into this scope, which asks for no credential. */
  countAll(scope: App): void {
    scope.addHook('onRequest', (request, _reply, done) => {
      this.count(request.raw)
      done()
    })
  }

  /** Counts one who wants to upgrade; answers what he is told where that is one too many. */
  refusal(request: IncomingMessage): UpgradeRefusal | undefined {
    try {
      this.count(request)
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      const { status, detail, code, extra } = error
      const headers = { ...rateLimitHeaders(error), 'retry-after': String(extra.retryAfterSecs) }
      return new UpgradeRefusal(status, detail, headers, code)
    }
  }
}
