// Customers' routes of watches, and changes as server-sent events. Only HTTP.
import { changesJson, id, Refusal, refuseField, watchCursor, watchQuery } from '@dormouse/contract'
import type { FastifyRequest } from 'fastify'
import { z } from 'zod'
import type { App } from '../http/app.ts'
import { sendEvents } from '../http/events.ts'
import { callerGone } from '../http/requests.ts'
import { askingOf } from './asking.ts'
import type { Asking } from './calls.ts'
import { entryPath } from './paths.ts'
import type { Watched, Watches } from './watches.ts'

const params = z.object({ id })
const endQuery = watchQuery.omit({ wait_secs: true }).extend({ cursor: watchCursor.describe('Of the watch') })

export function watchRoutes(app: App, { watches }: { watches: Watches }): void {
  app.get(
    '/desktops/:id/watch',
    {
      exposeHeadRoute: false,
      schema: {
        operationId: 'watchFolder',
        right: 'use',
        tags: ['Guest'],
        wakes: 'files',
        summary: 'Follow what changes in a folder of an awake desktop',
        description:
          'Without a cursor a watch begins, and the answer is its cursor. With one, the changes behind it, also those of before a lost connection or a sleep: the guest keeps them, up to 1 MiB. `overflow` says that some may be missing; list the folder again then. With `accept: text/event-stream`, server-sent events: `data` is a FileChange, `id` is the cursor behind a batch, and `Last-Event-ID` continues. The stream ends with `event: end` and a `reason`: `reconnect`, or a code such as `not_awake` when the desktop sleeps. At most 16 watches of a desktop; one that was not read for ten minutes ends by itself. A watch keeps no desktop awake. A change can be reported twice, never left out without `overflow`.',
        params,
        querystring: watchQuery,
        response: { 200: changesJson },
        answers: {
          200: {
            what: 'The changes; none where none have come in time',
            stream: 'text/event-stream',
            headers: {
              'cache-control': '`no-store`',
              'x-accel-buffering': 'Of a stream: `no`, so that a proxy passes each event on at once',
            },
          },
        },
        problems: [404, 409, 504],
      },
    },
    async (request, reply) => {
      const { query } = request
      const asking = { ...askingOf(request), signal: callerGone(request, reply) }
      const watched = watchedOf(query)
      if (/\btext\/event-stream\b/i.test(request.headers.accept ?? '')) {
        const from = lastCursor(request) ?? query.cursor ?? (await watches.begin(asking, watched))
        // Refuses before the stream begins.
        await watches.check(asking, watched, from)
        return sendEvents(reply, watchEvents(watches, asking, watched, from)) as never
      }
      const { cursor, wait_secs: waitSecs = 0 } = query
      const page =
        cursor === undefined
          ? { changes: [], cursor: await watches.begin(asking, watched) }
          : await watches.read(asking, watched, cursor, waitSecs * 1_000)
      return reply.header('cache-control', 'no-store').send(page)
    },
  )

  app.delete(
    '/desktops/:id/watch',
    {
      schema: {
        operationId: 'endWatch',
        right: 'use',
        tags: ['Guest'],
        wakes: 'files',
        summary: 'End a watch',
        params,
        querystring: endQuery,
        answers: { 204: 'The desktop has no such watch' },
        problems: [404, 409, 504],
      },
    },
    async (request, reply) => {
      await watches.end(askingOf(request), watchedOf(request.query), request.query.cursor)
      return reply.code(204).send()
    },
  )
}

const watchedOf = ({ path, recursive }: { path: string; recursive?: string | undefined }): Watched => ({
  path: entryPath('path', path),
  recursive: recursive === 'true',
})

function lastCursor({ headers }: FastifyRequest): string | undefined {
  const text = [headers['last-event-id']].flat()[0]
  if (text === undefined || text === '') return undefined
  return watchCursor.safeParse(text).success ? text : refuseField('Last-Event-ID', 'must be a cursor of this route')
}

/** Proxies close connections without traffic, often after 30 s. */
const waitMs = 10_000
/** The client connects again, with a credential that is verified again. */
const longestMs = 300_000

/** Ends with `event: end` and a reason: `reconnect`, or the code of what prevents it, such as `not_awake`. */
export async function* watchEvents(
  watches: Watches,
  asking: Asking,
  watched: Watched,
  from: string,
): AsyncGenerator<string> {
  const until = performance.now() + longestMs
  let cursor = from
  yield `id: ${cursor}\n\n`
  try {
    while (performance.now() < until) {
      const page = await watches.read(asking, watched, cursor, waitMs)
      cursor = page.cursor
      // The cursor moves with the last of a batch: after a cut the whole batch comes again.
      const blocks = page.changes.map((change) => `data: ${JSON.stringify(change)}\n`)
      yield blocks.length > 0 ? `${blocks.join('\n')}id: ${cursor}\n\n` : ': still watching\n\n'
    }
    yield endOf('reconnect')
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    // A sleep shows first as a guest that no longer answers.
    const code = (why: unknown) => (why instanceof Refusal ? why.code : error.code)
    yield endOf(await watches.check(asking, watched, cursor).then(() => error.code, code))
  }
}

const endOf = (reason: string): string => `event: end\ndata: ${JSON.stringify({ reason })}\n\n`
