// Holds operators' routes to the audit log. A route that changes something names its action in its schema, or it is not
// registered. It writes its entry in the transaction of the change, or its response becomes a 500. Knows no table.
import type { FastifyRequest } from 'fastify'
import type { Db, Note } from '../db/pool.ts'
import type { App } from './app.ts'

declare module 'fastify' {
  interface FastifySchema {
    /** The route's action in the audit log, such as `org.create`; false if it changes nothing. */
    act?: string | false
  }
  interface FastifyRequest {
    note: Note | undefined
  }
}

type Entry = { actor: string; action: string; subject: string; details: Record<string, unknown> }

const readOnly = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE'])

export class AuditTrail {
  /** Actions by method and path. */
  readonly byRoute = new Map<string, string>()
  readonly #record: (tx: Db, entry: Entry) => Promise<void>
  readonly #noted = new WeakSet<FastifyRequest>()

  constructor(record: (tx: Db, entry: Entry) => Promise<void>) {
    this.#record = record
  }

  /** Applies to every route that is registered in the scope from now on. */
  watch(scope: App, actorOf: (request: FastifyRequest) => string): void {
    scope.addHook('onRoute', ({ method, url, schema }) => {
      const changing = [method].flat().filter((name) => !readOnly.has(name))
      if (changing.length > 0 && schema?.act === undefined) throw new Error(`${method} ${url} names no audit action`)
      if (schema?.act) for (const name of changing) this.byRoute.set(`${name} ${url}`, schema.act)
    })
    scope.addHook('preHandler', async (request) => {
      const action = request.routeOptions.schema?.act
      if (action) request.note = this.#noteOf(request, actorOf(request), action)
    })
    scope.addHook('onSend', async (request, { statusCode }) => {
      const { schema, url } = request.routeOptions
      if (statusCode < 300 && schema?.act && !this.#noted.has(request))
        throw new Error(`${request.method} ${url} changed something and wrote no audit entry`)
    })
  }

  #noteOf(request: FastifyRequest, actor: string, action: string): Note {
    return async (tx, subject, details = {}) => {
      if (details) await this.#record(tx, { actor, action, subject, details })
      this.#noted.add(request)
    }
  }
}

/** Writes the request's audit entry; call it in the transaction of the change. */
export function noteOf({ note, routeOptions }: FastifyRequest): Note {
  if (note) return note
  throw new Error(`${routeOptions.url} has no audit action`)
}
