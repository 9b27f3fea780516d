// Repeats a call that has found its desktop asleep once that is awake, and tells it in the answer. Only HTTP.
import { id, type WokeJson, wokeHeader, wokeText } from '@dormouse/contract'
import type { FastifyReply, FastifyRequest, RouteHandlerMethod } from 'fastify'
import { awakening, giveAwaken } from '../guest/awaken.ts'
import type { App } from '../http/app.ts'
import { callerGone, wakeWishOf } from '../http/requests.ts'
import { customer } from '../principals/authentication.ts'
import type { WakesOnUse } from './service.ts'

/** For every route of the scope that is registered after this, and says in its schema that it `wakes`. */
export function wakeWhereUsed(scope: App, wakes: WakesOnUse): void {
  const wrapped = new WeakSet<RouteHandlerMethod>()
  const woken = new WeakMap<FastifyRequest, WokeJson>()

  const awakenFor = (request: FastifyRequest, reply: FastifyReply) =>
    wakes.awakenFor({
      caller: customer(request),
      desktopId: id.parse((request.params as { id: string }).id),
      class: request.routeOptions.schema!.wakes!,
      wish: wakeWishOf(request.headers),
      requestId: request.id,
      gone: () => callerGone(request, reply),
      hasAnswered: () => reply.sent,
      woke: (how) => {
        woken.set(request, how)
        reply.header(wokeHeader, wokeText(how))
      },
    })

  scope.addHook('onRoute', (route) => {
    const { handler } = route
    // A GET and its HEAD have one handler.
    if (!route.schema?.wakes || wrapped.has(handler)) return
    route.handler = async function (request, reply) {
      const awaken = awakenFor(request, reply)
      // A body of raw bytes is read once, so such a route wakes the desktop itself, right before that.
      const readsOnce = request.routeOptions.schema?.bytes !== undefined
      if (readsOnce) giveAwaken(request, awaken)
      return awakening(readsOnce ? undefined : awaken, async () => handler.call(this, request, reply))
    }
    wrapped.add(route.handler)
  })

  scope.addHook('preValidation', (request, _reply, done) => {
    if (request.routeOptions.schema?.wakes) wakeWishOf(request.headers)
    done()
  })

  scope.addHook('preSerialization', (request, reply, payload, done) => {
    const woke = reply.statusCode < 400 ? woken.get(request) : undefined
    done(null, woke ? { ...(payload as object), woke } : payload)
  })
}
