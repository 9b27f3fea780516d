// The chapter "Errors", and how its statuses may be retried.
import { newId } from '@dormouse/contract'
import type { ApiAnswer } from '../integration/parts/api.ts'
import { problem, same, status } from './assertions.ts'
import type { Context } from './context.ts'
import type { Chapter } from './row.ts'

const here = (context: Context, rest: string) => context.idle().then((id) => `/v1/desktops/${id}${rest}`)

/** One refusal of every status that two keys can bring about. */
const refusals: [expected: number, ask: (context: Context) => Promise<ApiAnswer>][] = [
  [400, (context) => context.get('/v1/desktops/nonsense')],
  [400, (context) => context.get('/v1/desktops?state=x')],
  [400, (context) => context.get('/v1/usage?start=x')],
  [400, (context) => context.post('/v1/desktops', '{')],
  [401, (context) => context.get('/v1/desktops', { key: null })],
  [404, (context) => context.get(`/v1/desktops/${newId()}`)],
  [404, (context) => context.get('/v1/nothing/here')],
  [409, async (context) => context.post(await here(context, '/hibernate'))],
  [409, async (context) => context.post(await here(context, '/exec'), { command: 'true' })],
  [413, (context) => context.post('/v1/desktops', 'x'.repeat(2 * 1024 * 1024 + 1))],
  [501, async (context) => context.post(await here(context, '/fork'))],
]

const retrying = 'packages/client/src/retry.test.ts'

export const errors: Chapter = {
  title: 'Errors',
  rows: [
    {
      id: 'errors.problem',
      sentence:
        'Every non-2xx response is an RFC 9457 problem body with media type `application/problem+json`: type, title, status, detail always',
      async check(context) {
        for (const [expected, ask] of refusals) problem(`${expected}`, await ask(context), expected)
      },
    },
    {
      id: 'errors.400',
      sentence: '400 | Malformed JSON body; invalid … desktop id',
      async check(context) {
        for (const verb of ['wake', 'hibernate', 'destroy', 'exec', 'stream']) {
          problem(`${verb}, body`, await context.post(`/v1/desktops/${newId()}/${verb}`, '{"'), 400)
          problem(`${verb}, id`, await context.post(`/v1/desktops/nonsense/${verb}`, '{"'), 400)
        }
      },
    },
    {
      id: 'errors.title',
      sentence: 'title | always | Status phrase',
      async check(context) {
        const { STATUS_CODES } = await import('node:http')
        for (const [expected, ask] of refusals.filter(([each]) => each !== 413))
          same('title', (await ask(context)).json.title, STATUS_CODES[expected])
      },
    },
    {
      id: 'errors.operation_id',
      sentence: 'operation_id | only when the problem concerns a specific operation',
      async check(context) {
        for (const [expected, ask] of refusals)
          same(`operation_id of ${expected}`, (await ask(context)).json.operation_id, undefined)
        const { again } = await context.failing()
        const { operation_id } = problem('a failed wake', await again(), 409).json
        status('the operation', await context.get(`/v1/operations/${operation_id}`), 200)
      },
    },
    {
      id: 'errors.404',
      sentence: '404 | Desktop or operation does not exist or belongs to another organisation (byte-identical bodies)',
      async check(context) {
        const { id } = await context.fresh()
        const { json } = await context.settled(id, 'destroy')
        for (const [kind, known] of [
          ['desktops', id],
          ['operations', json.id],
        ]) {
          const wish = { key: context.otherKey }
          const foreign = problem(`foreign ${kind}`, await context.get(`/v1/${kind}/${known}`, wish), 404)
          const missing = problem(`missing ${kind}`, await context.get(`/v1/${kind}/${newId()}`, wish), 404)
          same(`foreign and missing ${kind}`, foreign.text, missing.text)
        }
      },
    },
    {
      id: 'errors.500',
      sentence: '500 | Any other failure; the body never carries the real error text',
      needs: 'a database that is away',
      provedBy: [
        'test/integration/postgres.test.ts',
        'a Postgres that is restarted, then killed, while operations run',
      ],
    },
    {
      id: 'errors.safe',
      sentence: '503 and 504 mean the exact request is safe to retry.',
      needs: 'a leader that goes to and fro',
      provedBy: [
        'test/integration/leadership.test.ts',
        'requests sent to two replicas while the lead goes to and fro make each thing once',
      ],
    },
    {
      id: 'errors.retry',
      sentence:
        'Clients treat 429, 503 and 504 as retryable and honour a `Retry-After` response header (seconds or HTTP-date) capped at 30 s',
      needs: 'a client',
      provedBy: [retrying, 'Retry-After is obeyed as it is, and capped at 30 s'],
    },
    {
      id: 'errors.backoff',
      sentence:
        'otherwise exponential backoff starting at 250 ms doubling per attempt with full jitter, up to 3 retries',
      needs: 'a client',
      provedBy: [retrying, 'without Retry-After the delay has full jitter below 250 ms, doubled per attempt'],
    },
    {
      id: 'errors.retried',
      sentence:
        'Only GET requests and requests carrying an Idempotency-Key are retried. Other 4xx statuses are not retried.',
      needs: 'a client',
      provedBy: ['packages/client/src/http.test.ts', '%s is sent once'],
    },
  ],
}
