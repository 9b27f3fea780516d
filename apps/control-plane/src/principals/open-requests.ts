// Cuts requests in progress whose key was revoked or has expired, or no longer reaches their desktop: streams, transfers, and others
// that last. A request that is over within half a second costs nothing but its entry here.
import type { Labels } from '@dormouse/contract'
import type { Log } from '@dormouse/process'
import type { FastifyRequest } from 'fastify'
import type { App } from '../http/app.ts'
import { admits, type Scope } from './scope.ts'
import type { Principals } from './service.ts'

const checkEveryMs = 500

export interface OpenRequestsOptions {
  principals: Pick<Principals, 'withdrawn'>
  /** The labels of these desktops now. */
  labelsOf(ids: string[]): Promise<ReadonlyMap<string, Labels>>
  log: Log
}

export class OpenRequests {
  readonly #options: OpenRequestsOptions
  /** With the check before which each began. */
  readonly #open = new Map<FastifyRequest, number>()
  /** What the last check would have cut. A stream that ends itself, with a reason, has had the time for it. */
  #warned = new Set<FastifyRequest>()
  #checks = 0
  #isChecking = false
  readonly #timer: NodeJS.Timeout

  constructor(options: OpenRequestsOptions) {
    this.#options = options
    this.#timer = setInterval(() => void this.#check(), checkEveryMs).unref()
  }

  /** Applies to every route that is registered in the scope from now on. In a scope that authenticates. */
  watch(scope: App): void {
    scope.addHook('preHandler', (request, _reply, done) => {
      this.#open.set(request, this.#checks)
      done()
    })
    scope.addHook('onResponse', (request, _reply, done) => {
      this.#open.delete(request)
      done()
    })
  }

  close(): void {
    clearInterval(this.#timer)
  }

  async #check(): Promise<void> {
    if (this.#isChecking) return
    this.#isChecking = true
    this.#checks++
    try {
      // A response that was cut has no end of its own.
      for (const request of this.#open.keys()) if (request.raw.socket.destroyed) this.#open.delete(request)
      const lasting = [...this.#open].filter(([, since]) => since < this.#checks - 1).map(([request]) => request)
      const ended = lasting.length === 0 ? [] : await this.#endedAmong(lasting)
      for (const request of ended) if (this.#warned.has(request)) request.raw.socket.destroy()
      this.#warned = new Set(ended)
    } catch (err) {
      this.#options.log.debug({ err }, 'the credentials of requests in progress could not be checked; retrying')
    } finally {
      this.#isChecking = false
    }
  }

  async #endedAmong(requests: FastifyRequest[]): Promise<FastifyRequest[]> {
    const { principals, labelsOf } = this.#options
    const subjects = new Set(requests.flatMap(({ principal }) => principal?.subject ?? []))
    const withdrawn = await principals.withdrawn([...subjects])
    const limited = requests.flatMap((request) => {
      const [scope, id] = [scopeOf(request), desktopOf(request)]
      return scope?.selector && id !== undefined ? [{ request, scope, id }] : []
    })
    const labels = limited.length === 0 ? new Map<string, Labels>() : await labelsOf(limited.map(({ id }) => id))
    const left = new Set(
      limited
        .filter(({ scope, id }) => !admits(scope, { id, labels: labels.get(id) ?? {} }))
        .map(({ request }) => request),
    )
    return requests.filter((request) => withdrawn.has(request.principal?.subject ?? '') || left.has(request))
  }
}

const scopeOf = ({ principal }: FastifyRequest): Scope | null =>
  principal?.kind === 'customer' ? principal.scope : null

/** The desktop that the request is about. */
const desktopOf = ({ routeOptions, params }: FastifyRequest): string | undefined =>
  routeOptions.url?.startsWith('/v1/desktops/:id') ? (params as { id: string }).id : undefined
