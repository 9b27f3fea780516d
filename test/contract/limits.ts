// The chapters "Limits" and "Versioning".
import type { ApiWish } from '../integration/parts/api.ts'
import { holds, problem, same, status } from './assertions.ts'
import type { Context } from './context.ts'
import type { Chapter } from './row.ts'

const mib = 1024 * 1024
const told: NonNullable<ApiWish['headers']> = {}
const untold: NonNullable<ApiWish['headers']> = { 'transfer-encoding': 'chunked' }

/** A create whose body is that long. */
const sized = (context: Context, bytes: number, headers: NonNullable<ApiWish['headers']>) =>
  context.post('/v1/desktops', JSON.stringify({ tier: 'small' }).padEnd(bytes), headers)

export const limits: Chapter = {
  title: 'Limits',
  rows: [
    {
      id: 'limits.file',
      sentence: 'File write body | 8 MiB; 413 beyond',
      async check(context) {
        const path = `/v1/desktops/${await context.awake()}/files/tmp/conformance-limit`
        status('8 MiB', await context.ask('PUT', path, { body: Buffer.alloc(8 * mib, 'x') }), 200)
        problem('a byte more', await context.ask('PUT', path, { body: Buffer.alloc(8 * mib + 1, 'x') }), 413)
      },
    },
    {
      id: 'limits.body',
      sentence: 'Any request body | 2 MiB; 413 beyond | every request',
      async check(context) {
        for (const headers of [told, untold]) {
          status('2 MiB', await sized(context, 2 * mib, headers), 201)
          problem('more', await sized(context, 2 * mib + 1, headers), 413)
        }
        const large = 'x'.repeat(2 * mib + 1)
        for (const path of ['/v1/desktops', '/v1/usage', '/v1/openapi.json'])
          for (const headers of [told, untold])
            problem(`GET ${path}`, await context.get(path, { body: large, headers }), 413)
        for (const rest of ['wake', 'hibernate', 'destroy', 'exec', 'stream'])
          problem(rest, await context.post(`/v1/desktops/${await context.idle()}/${rest}`, large), 413)
      },
    },
    {
      id: 'limits.exec.default',
      slow: { provedBy: ['test/integration/exec.test.ts', 'more than 300 s is 300 to the guest, nothing is 60'] },
      sentence: 'exec time-out default | 60 s',
      async check(context) {
        const path = `/v1/desktops/${await context.awake()}/exec`
        const began = performance.now()
        const { status: came } = await context.post(path, { command: 'sleep 90' })
        const tookSecs = (performance.now() - began) / 1000
        holds(
          'sleep 90',
          `${came} after ${tookSecs} s`,
          '504 after 60 s',
          came === 504 && tookSecs >= 59 && tookSecs < 75,
        )
      },
    },
    {
      id: 'limits.exec.maximum',
      sentence: 'exec time-out maximum | 300 s; larger requests are clamped, not rejected',
      async check(context) {
        const path = `/v1/desktops/${await context.awake()}/exec`
        status('86400', await context.post(path, { command: 'true', timeout_secs: 86_400 }), 200)
      },
    },
    {
      id: 'limits.wait.cadence',
      sentence: '`?wait=true` poll cadence | 2 s | every mutating route',
      async check(context) {
        const id = await context.asleep()
        const operation = (await context.settled(id, 'wake')).json
        const lateMs = Date.now() - Date.parse(operation.settled_at)
        // What is settled is told within a cadence, give or take the clocks.
        holds('answered', `${lateMs} ms after it settled`, 'within 2 s', Number.isNaN(lateMs) || lateMs < 5_000)
      },
    },
    {
      id: 'limits.wait.cap',
      sentence:
        '`?wait=true` cap | 120 s; on reaching it the in-progress operation is returned with 200, never a time-out error',
      needs: 'an operation that hangs',
      provedBy: ['test/integration/contract.test.ts', 'a wait that reaches its cap answers the operation as it is'],
    },
    {
      id: 'limits.keys.organisations',
      sentence: 'The same key value used in two organisations … creates independent records.',
      async check(context) {
        const wish = { body: { tier: 'small' }, headers: context.newKey() }
        const mine = status('one', await context.ask('POST', '/v1/desktops', wish), 201).json
        const their = await context.ask('POST', '/v1/desktops', { ...wish, key: context.otherKey })
        const theirs = status('the other', their, 201).json
        holds('id', theirs.id, 'another', theirs.id !== mine.id)
      },
    },
    {
      id: 'limits.keys.desktops',
      sentence: 'The same key value used … on two desktops for mutations, creates independent records.',
      async check(context) {
        const key = context.newKey()
        const ids = []
        for (const { id } of [await context.fresh(), await context.fresh()]) {
          const { json } = status('destroy', await context.post(`/v1/desktops/${id}/destroy?wait=true`, {}, key), 200)
          same('desktop_id', json.desktop_id, id)
          ids.push(json.id)
        }
        same('operations', new Set(ids).size, 2)
      },
    },
    {
      id: 'limits.keys.ascii',
      sentence: 'Key value must be ASCII.',
      async check(context) {
        const spaced = { 'idempotency-key': `${context.newKey()['idempotency-key']} !~` }
        status('ASCII', await context.post('/v1/desktops', { tier: 'small' }, spaced), 201)
        const beyond = { 'idempotency-key': 'ÿ' }
        problem('a byte above 127', await context.post('/v1/desktops', { tier: 'small' }, beyond), 400)
      },
    },
  ],
}

export const versioning: Chapter = {
  title: 'Versioning',
  rows: [
    {
      id: 'versioning.prefix',
      sentence: 'All routes are under the path prefix `/v1`.',
      async check(context) {
        const paths = Object.keys((await context.get('/v1/openapi.json')).json.paths)
        same(
          'paths elsewhere',
          paths.filter((path) => !path.startsWith('/v1/')),
          [],
        )
      },
    },
    {
      id: 'versioning.document',
      sentence:
        'The OpenAPI 3.1 contract for the version is served live and unauthenticated at `GET /v1/openapi.json`.',
      async check(context) {
        await context.idle()
        await context.get(`/v1/desktops/${newIdOfNobody}`)
        const document = status('openapi', await context.get('/v1/openapi.json', { key: null }), 200).json
        same('answers of this run that the document does not describe', context.complaints(document), [])
      },
    },
  ],
}

const newIdOfNobody = '00000000-0000-7000-8000-000000000000'
