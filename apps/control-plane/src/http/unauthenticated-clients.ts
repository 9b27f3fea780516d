// Counts unauthenticated clients by address, before their requests cost anything.
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

  /** The address that the request counts for. */
  addressOf(request: IncomingMessage): string {
    return this.#addresses.of(request)
  }

  /** Counts a request; throws `rate_limited` if its address has sent too many. */
  count(request: IncomingMessage): void {
    this.#limit.count(this.addressOf(request))
    this.#connections.countByAddress(request)
  }

  /** Takes the count back: the request was authenticated. */
  forgive(request: IncomingMessage): void {
    this.#limit.forgive(this.addressOf(request))
  }

  /** The socket is a host's. Their number is not limited here: this replica requested each. */
  prove(request: IncomingMessage, hostId: string): void {
    this.#connections.countByCredential(request, `host:${hostId}`, Number.POSITIVE_INFINITY)
  }

  /** Counts every request of a scope that needs no credential. */
  countAll(scope: App): void {
    scope.addHook('onRequest', (request, _reply, done) => {
      this.count(request.raw)
      done()
    })
  }

  /** Counts an upgrade; returns the refusal above the limit. */
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
