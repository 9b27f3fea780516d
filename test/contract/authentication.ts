// The chapter "Authentication".
import { newId } from '@dormouse/contract'
import type { ApiWish } from '../integration/parts/api.ts'
import { holds, problem, same, status } from './assertions.ts'
import type { Chapter } from './row.ts'

export const authentication: Chapter = {
  title: 'Authentication',
  rows: [
    {
      id: 'authentication.every-route',
      sentence: 'Every route under `/v1` except `GET /v1/openapi.json` requires `Authorization: Bearer <credential>`',
      async check(context) {
        const { json } = await context.get('/v1/openapi.json', { key: null })
        for (const [path, methods] of Object.entries(json.paths as Record<string, object>)) {
          if (path === '/v1/openapi.json') continue
          const filled = path.replace('{path}', 'x').replaceAll(/\{[^}]+\}/g, newId())
          for (const method of Object.keys(methods).filter((name) => name !== 'parameters'))
            problem(`${method} ${path}`, await context.ask(method.toUpperCase(), filled, { key: null }), 401)
        }
        problem('a path that is not there', await context.get('/v1/nothing/here', { key: null }), 401)
      },
    },
    {
      id: 'authentication.api-key',
      sentence: '`<credential>` is … an API key of the form `svc_sk_<API_KEY>`',
      async check(context) {
        for (const key of [context.key, context.otherKey]) {
          holds('key', `${key.slice(0, 7)}…`, 'svc_sk_…', key.startsWith('svc_sk_'))
          status('list', await context.get('/v1/desktops', { key }), 200)
        }
      },
    },
    {
      id: 'authentication.access-token',
      sentence: 'or a JWT access token (`<ACCESS_TOKEN>`) issued by an identity provider',
      needs: 'an identity provider',
      provedBy: [
        'test/integration/authentication.test.ts',
        'a token of the provider is its client’s organisation, and no other',
      ],
    },
    {
      id: 'authentication.organisation',
      sentence: "The credential determines the caller's organisation. … other organisations' resources answer 404",
      async check(context) {
        const [mine, theirs] = [await context.idle(), await context.foreign()]
        const get = (id: string, key: string) => context.get(`/v1/desktops/${id}`, { key })
        status('mine', await get(mine, context.key), 200)
        status('theirs', await get(theirs, context.otherKey), 200)
        const foreign = [await get(mine, context.otherKey), await get(theirs, context.key)]
        const missing = (await get(newId(), context.key)).text
        for (const answer of foreign) same('foreign and missing', problem('foreign', answer, 404).text, missing)
      },
    },
    {
      id: 'authentication.401',
      sentence:
        'A missing header, a non-Bearer header, a garbage value, or a key or token failing verification gives 401.',
      async check(context) {
        const { key } = context
        const broken = key.slice(0, -1) + (key.endsWith('a') ? 'b' : 'a')
        const headers = ['Basic dXNlcjpwYXNz', key, 'Bearer', 'Bearer garbage', `Bearer ${broken}`, `Basic ${key}`]
        const tokens = ['Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJ4In0.', 'Bearer a.b.c']
        const wishes: ApiWish[] = [
          {},
          ...[...headers, ...tokens].map((authorization) => ({ headers: { authorization } })),
        ]
        for (const [at, wish] of wishes.entries())
          problem(`credential ${at}`, await context.get('/v1/desktops', { ...wish, key: null }), 401)
      },
    },
    {
      id: 'authentication.503',
      sentence: 'When the identity provider is unreachable the service answers 503.',
      needs: 'an identity provider that can be cut off',
      provedBy: ['test/integration/authentication.test.ts', 'with the provider down and no key, a token is 503'],
    },
  ],
}
