// The chapter "What the service does".
import { newId } from '@dormouse/contract'
import { holds, problem, same, status } from './assertions.ts'
import type { Chapter } from './row.ts'

export const service: Chapter = {
  title: 'What the service does',
  rows: [
    {
      id: 'service.create',
      sentence: 'A caller creates a desktop of a given tier, lists and reads desktops',
      async check(context) {
        const made = await context.fresh()
        const list = status('list', await context.get('/v1/desktops'), 200).json.desktops as { id: string }[]
        holds(
          'list',
          list.length,
          `to hold ${made.id}`,
          list.some(({ id }) => id === made.id),
        )
        same('get', await context.see(made.id), made)
      },
    },
    {
      id: 'service.asynchronous',
      sentence: 'Lifecycle transitions are asynchronous. Each returns an operation handle … which can be fetched later',
      async check(context) {
        const { id } = await context.fresh()
        for (const verb of ['wake', 'destroy']) {
          const { json } = status(verb, await context.post(`/v1/desktops/${id}/${verb}`), 202)
          const later = status('operation', await context.get(`/v1/operations/${json.id}`), 200).json
          same(`the ${verb} fetched later`, [later.id, later.desktop_id, later.kind], [json.id, id, verb])
        }
      },
    },
    {
      id: 'service.awaited',
      sentence: 'or awaited on the server with `?wait=true`',
      async check(context) {
        const id = await context.asleep()
        const { json } = await context.settled(id, 'wake')
        const fetched = status('operation', await context.get(`/v1/operations/${json.id}`), 200)
        same('the awaited operation and the fetched one', json, fetched.json)
      },
    },
    {
      id: 'service.idempotency',
      sentence: 'Create and the three lifecycle mutations support idempotency keys.',
      async check(context) {
        const { id } = await context.fresh()
        for (const verb of ['wake', 'hibernate', 'destroy']) {
          const key = context.newKey()
          const path = `/v1/desktops/${id}/${verb}?wait=true`
          const first = status(verb, await context.post(path, {}, key), 200)
          same(`${verb} again`, status(verb, await context.post(path, {}, key), 200).json.id, first.json.id)
        }
        const key = context.newKey()
        const first = status('create', await context.post('/v1/desktops', { tier: 'small' }, key), 201)
        const again = status('create again', await context.post('/v1/desktops', { tier: 'small' }, key), 200)
        same('create again', again.json.id, first.json.id)
      },
    },
    {
      id: 'service.scope',
      sentence: 'A desktop of another organisation is indistinguishable from a missing one.',
      async check(context) {
        const foreign = await context.foreign()
        const requests: [method: string, rest: string, body?: unknown][] = [
          ['GET', ''],
          ['POST', '/wake'],
          ['POST', '/hibernate?wait=true', { expected_generation: 99 }],
          ['POST', '/destroy'],
          ['POST', '/exec', { command: 'true' }],
          ['PUT', '/files/tmp/x', 'x'],
          ['GET', '/files/tmp/x'],
          ['POST', '/stream', { claim: 'view' }],
        ]
        for (const [method, rest, body] of requests) {
          const there = await context.ask(method, `/v1/desktops/${foreign}${rest}`, { body })
          const nowhere = await context.ask(method, `/v1/desktops/${newId()}${rest}`, { body })
          problem(`${method} ${rest}`, there, 404)
          same(`${method} ${rest}, foreign and missing`, there.text, nowhere.text)
          const names = ({ headers }: typeof there) => Object.keys(headers).sort()
          same(`${method} ${rest}, headers`, names(there), names(nowhere))
        }
        const list = (await context.get('/v1/desktops')).json.desktops as { id: string }[]
        holds('list', foreign, 'no desktop of another organisation', !list.some(({ id }) => id === foreign))
      },
    },
    {
      id: 'service.guest',
      sentence:
        'Guest operations act inside an awake desktop: run a command (exec), write and read files, and obtain a stream URL with a claim. A usage query exists',
      async check(context) {
        const at = `/v1/desktops/${await context.awake()}`
        status('exec', await context.post(`${at}/exec`, { command: 'true' }), 200)
        status('write', await context.ask('PUT', `${at}/files/tmp/conformance`, { body: 'word' }), 200)
        same('read', status('read', await context.get(`${at}/files/tmp/conformance`), 200).text, 'word')
        status('stream', await context.post(`${at}/stream`, { claim: 'view' }), 200)
        status('usage', await context.get('/v1/usage'), 200)
      },
    },
    {
      id: 'service.fork',
      sentence: 'A fork route exists in the contract but always answers 501.',
      async check(context) {
        const document = (await context.get('/v1/openapi.json')).json
        holds('paths', Object.keys(document.paths), 'a fork', '/v1/desktops/{id}/fork' in document.paths)
        for (const id of [newId(), await context.idle(), await context.foreign(), 'nonsense'])
          problem(`fork of ${id}`, await context.post(`/v1/desktops/${id}/fork`), 501)
      },
    },
    {
      id: 'service.leader',
      sentence: 'Mutations are accepted only by the leader replica. A non-leader answers 503.',
      needs: 'second replica',
      provedBy: [
        'test/integration/leadership.test.ts',
        'a replica that does not lead answers 503 with Retry-After on every mutation',
      ],
    },
    {
      id: 'service.openapi',
      sentence: 'The OpenAPI document of the service is served unauthenticated at `GET /v1/openapi.json`.',
      async check(context) {
        const { json } = status('openapi', await context.get('/v1/openapi.json', { key: null }), 200)
        holds('openapi', json?.openapi, '3.1', /^3\.1/.test(json?.openapi))
      },
    },
    {
      id: 'service.no-server',
      sentence: 'The OpenAPI 3.1 document that the service publishes declares no fixed server address.',
      async check(context) {
        same('servers', (await context.get('/v1/openapi.json', { key: null })).json.servers, undefined)
      },
    },
  ],
}
