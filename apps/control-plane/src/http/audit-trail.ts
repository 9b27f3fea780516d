// Operators' acts: whatever one of their routes changes is noted in the audit log, in the transaction that changes it.
// A route that could change something says what its act is called, or it is not registered; an act that was not noted is
// answered as a fault. Knows no table.
import type { FastifyRequest } from 'fastify'
import type { Db, Note } from '../db/pool.ts'
import type { App } from './app.ts'

declare module 'fastify' {
  interface FastifySchema {
    /** What the route's act is called in the audit log, such as `org.create`; false where nothing is changed. */
    act?: string | false
  }
  interface FastifyRequest {
    note: Note | undefined
  }
}

type Line = { actor: string; action: string; subject: string; details: Record<string, unknown> }

const harmless = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE'])

export class AuditTrail {
  /** What operators can do, by method and path. */
  readonly byRoute = new Map<string, string>()
  readonly #record: (tx: Db, line: Line) => Promise<void>
  readonly #noted = new WeakSet<FastifyRequest>()

  constructor(record: (tx: Db, line: Line) => Promise<void>) {
    this.#record = record
  }

  /** Holds every route that is registered in the scope from now on to the rule. */
  watch(scope: App, actorOf: (request: FastifyRequest) => string): void {
    scope.addHook('onRoute', ({ method, url, schema }) => {
      const changing = [method].flat().filter((name) => !harmless.has(name))
      if (changing.length > 0 && schema?.act === undefined) throw new Error(`${method} ${url} names no act`)
      if (schema?.act) for (const name of changing) this.byRoute.set(`${name} ${url}`, schema.act)
    })
    scope.addHook('preHandler', async (request) => {
      const action = request.routeOptions.schema?.act
      if (action) request.note = this.#noteOf(request, actorOf(request), action)
    })
    scope.addHook('onSend', async (request, { statusCode }) => {
      const { schema, url } = request.routeOptions
      if (statusCode < 300 && schema?.act && !this.#noted.has(request))
        throw new Error(`${request.method} ${url} was done and not noted in the audit log`)
    })
  }

  #noteOf(request: FastifyRequest, actor: string, action: string): Note {
    return async (tx, subject, details = {}) => {
      if (details) await this.#record(tx, { actor, action, subject, details })
      this.#noted.add(request)
    }
  }
}

/** What notes the request's act; to be called in the transaction that does it. */
export function noteOf({ note, routeOptions }: FastifyRequest): Note {
  if (note) return note
  throw new Error(`${routeOptions.url} has no act to note`)
}
