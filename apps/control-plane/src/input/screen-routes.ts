// The customers' routes that read a screen. HTTP and nothing else.
import { id, screenJson, screenshotQuery } from '@dormouse/contract'
import { z } from 'zod'
import type { App } from '../http/app.ts'
import { callerGone } from '../http/requests.ts'
import { customer } from '../principals/authentication.ts'
import type { ScreenReads } from './screens.ts'

const params = z.object({ id })

export interface ScreenRoutesOptions {
  screenReads: ScreenReads
}

export function screenRoutes(app: App, { screenReads }: ScreenRoutesOptions): void {
  app.get(
    '/desktops/:id/screen',
    {
      schema: {
        operationId: 'getScreen',
        right: 'use',
        tags: ['Guest'],
        wakes: 'screen',
        summary: 'Read the size, the pointer and the claim of an awake desktop’s screen',
        description:
          'Needs no claim. `sequence` is another one when the screen shows something else; a screenshot can wait for that.',
        params,
        response: { 200: screenJson },
        answers: { 200: 'The screen as it is now' },
        problems: [404, 409, 501],
      },
    },
    async (request, reply) => {
      const asker = { requestId: request.id, signal: callerGone(request, reply) }
      return screenReads.screen(customer(request), request.params.id, asker)
    },
  )

  app.get(
    '/desktops/:id/screenshot',
    {
      schema: {
        operationId: 'takeScreenshot',
        right: 'use',
        tags: ['Guest'],
        wakes: 'screen',
        summary: 'Take a screenshot of a desktop',
        description:
          'Needs no claim. Without a query: the whole screen now, as PNG. A JPEG has at most 8,294,400 pixels; a larger one is made smaller. Where the screen does not settle or change in time, the answer says so, and is not a failure.',
        params,
        querystring: screenshotQuery,
        answers: {
          200: {
            what: 'The screen',
            headers: {
              'cache-control': '`no-store`',
              'dormouse-screen-sequence': 'Another one when the screen shows something else',
              'dormouse-screen-size': 'The pixels of the whole screen, such as `1280x800`',
              'dormouse-screen-changed': 'With `wait`: `true` where the screen has changed meanwhile',
              'dormouse-screen-settled': 'With `wait=settled`: `true` where the screen was quiet in time',
            },
            bytes: ['image/png', 'image/jpeg'],
          },
        },
        problems: [404, 409, 501, 504],
      },
    },
    async (request, reply) => {
      const { query } = request
      const asker = { requestId: request.id, signal: callerGone(request, reply) }
      const { seen, picture, mimeType } = await screenReads.screenshot(
        customer(request),
        request.params.id,
        query,
        asker,
      )
      reply.headers({
        'cache-control': 'no-store',
        'dormouse-screen-sequence': seen.sequence,
        'dormouse-screen-size': `${seen.width}x${seen.height}`,
        ...(query.wait && { 'dormouse-screen-changed': String(seen.changed) }),
        ...(seen.settled !== null && { 'dormouse-screen-settled': String(seen.settled) }),
      })
      return reply.type(mimeType).send(picture)
    },
  )
}
