// Customers' routes for a desktop's idleness and its wake locks. Only HTTP.
import { id, idleJson, wakeLockBody, wakeLockJson, wakeLockName } from '@dormouse/contract'
import { z } from 'zod'
import type { App } from '../http/app.ts'
import type { Leadership } from '../leadership/leadership.ts'
import { customer } from '../principals/authentication.ts'
import type { Idle } from './service.ts'

const params = z.object({ id })
const lockParams = params.extend({ name: wakeLockName })
const wakeLockListJson = z.object({ wake_locks: z.array(wakeLockJson) }).meta({ id: 'WakeLockList' })

export function idleRoutes(app: App, { idle, leadership }: { idle: Idle; leadership: Leadership }): void {
  app.get(
    '/desktops/:id/idle',
    {
      schema: {
        operationId: 'getIdle',
        right: 'see',
        tags: ['Desktops'],
        summary: 'Read what keeps a desktop awake, and when it will hibernate by itself',
        params,
        response: { 200: idleJson },
        answers: { 200: 'As of now. Reading it is no activity' },
        problems: [404],
      },
    },
    async (request) => idle.show(customer(request), request.params.id),
  )

  app.put(
    '/desktops/:id/wake-locks/:name',
    {
      schema: {
        operationId: 'putWakeLock',
        right: 'power',
        tags: ['Desktops'],
        summary: 'Keep a desktop awake for a while, or longer',
        description:
          'Holds off hibernation by the idle timeout alone: a request to hibernate, and the operators, go before it. At most 16 at once. When it ends, the idle timeout begins.',
        params: lockParams,
        body: wakeLockBody,
        response: { 200: wakeLockJson },
        answers: { 200: 'The desktop has the wake lock' },
        problems: [404, 409],
      },
    },
    async (request) => {
      leadership.require()
      const { id: desktopId, name } = request.params
      return idle.putLock(customer(request), desktopId, name, request.body)
    },
  )

  app.delete(
    '/desktops/:id/wake-locks/:name',
    {
      schema: {
        operationId: 'deleteWakeLock',
        right: 'power',
        tags: ['Desktops'],
        summary: 'End a wake lock',
        params: lockParams,
        response: { 200: wakeLockListJson },
        answers: { 200: 'The desktop has no such wake lock; those that are left' },
        problems: [404],
      },
    },
    async (request) => {
      leadership.require()
      const { id: desktopId, name } = request.params
      return { wake_locks: await idle.removeLock(customer(request), desktopId, name) }
    },
  )
}
