// The chapter "Endpoints", up to the routes that reach into a guest.
import { newId } from '@dormouse/contract'
import { holds, problem, same, status } from './assertions.ts'
import type { Context } from './context.ts'
import { settles } from './resources.ts'
import type { Chapter, Checked } from './row.ts'

const verbs = ['wake', 'hibernate', 'destroy'] as const
/** As HTTP carries it: a byte above 127. */
const notAscii = { 'idempotency-key': 'schlüssel' }

const listing: Chapter['rows'] = [
  {
    id: 'list.200',
    sentence: "an object with one field `desktops`, an array of Desktop, limited to the caller's organisation",
    async check(context) {
      const [idle, foreign] = [await context.idle(), await context.foreign()]
      for (const [key, there, not] of [
        [context.key, idle, foreign],
        [context.otherKey, foreign, idle],
      ] as const) {
        const { json } = status('list', await context.get('/v1/desktops', { key }), 200)
        same('fields', Object.keys(json), ['desktops'])
        const ids = (json.desktops as { id: string }[]).map(({ id }) => id)
        same('holds its own, and the other', [ids.includes(there), ids.includes(not)], [true, false])
      }
    },
  },
  {
    id: 'list.400',
    sentence: '400 | Invalid state filter',
    async check(context) {
      for (const state of ['asleep', '', 'AWAKE'])
        problem(`state=${state}`, await context.get(`/v1/desktops?state=${state}`), 400)
    },
  },
  unauthenticated('list.401', 'GET', () => '/v1/desktops'),
]

const bodies: Chapter['rows'] = [
  {
    id: 'endpoints.json',
    sentence: 'Request and response bodies are JSON.',
    async check(context) {
      const wish = { body: { tier: 'small' }, headers: { 'content-type': 'text/plain' } }
      const made = status('create, whatever its Content-Type', await context.ask('POST', '/v1/desktops', wish), 201)
      const path = `/v1/desktops/${made.json.id}`
      const others = [await context.get('/v1/desktops'), await context.get(path), await context.post(`${path}/destroy`)]
      for (const { headers } of [made, ...others])
        same('media type', String(headers['content-type']).split(';')[0], 'application/json')
    },
  },
]

const creating: Chapter['rows'] = [
  {
    id: 'create.201',
    sentence: '201 | Desktop created by this request',
    async check(context) {
      const [one, two] = [await context.fresh(), await context.fresh()]
      holds('ids of two', one.id, 'different ones', one.id !== two.id)
    },
  },
  {
    id: 'create.200',
    sentence:
      '200 | The key was already used by this organisation; the existing desktop is returned and no second one is created',
    async check(context) {
      const key = context.newKey()
      const ask = () => context.post('/v1/desktops', { tier: 'small' }, key)
      const answers = await Promise.all([ask(), ask(), ask(), ask()])
      same('statuses', answers.map((answer) => answer.status).sort(), [200, 200, 200, 201])
      same('ids', new Set(answers.map(({ json }) => json.id)).size, 1)
      const id = answers[0]!.json.id
      const list = (await context.get('/v1/desktops')).json.desktops as { id: string }[]
      same('in the list', list.filter((each) => each.id === id).length, 1)
    },
  },
  {
    id: 'create.400',
    sentence: '400 | Invalid tier or billing_mode, malformed body, non-ASCII Idempotency-Key',
    async check(context) {
      for (const body of [
        '{"tier":',
        '[]',
        'null',
        '',
        '"small"',
        '{"tier":"huge"}',
        '{"tier":"small","billing_mode":"x"}',
      ])
        problem(body, await context.post('/v1/desktops', body), 400)
      problem('key', await context.post('/v1/desktops', { tier: 'small' }, notAscii), 400)
    },
  },
  unauthenticated('create.401', 'POST', () => '/v1/desktops'),
]

const reading: Chapter['rows'] = [
  {
    id: 'get.200',
    sentence: 'Response 200: Desktop.',
    async check(context) {
      const made = await context.fresh()
      same('the desktop', await context.see(made.id), made)
    },
  },
  {
    id: 'get.400',
    sentence: '400 | Malformed id',
    async check(context) {
      for (const id of ['nonsense', `${newId()}0`, '1']) problem(id, await context.get(`/v1/desktops/${id}`), 400)
    },
  },
  unauthenticated('get.401', 'GET', (id) => `/v1/desktops/${id}`),
  {
    id: 'get.404',
    sentence: 'Desktop not found, or belongs to another organisation (the two cases are byte-identical)',
    async check(context) {
      const foreign = problem('foreign', await context.get(`/v1/desktops/${await context.foreign()}`), 404)
      same('missing', problem('missing', await context.get(`/v1/desktops/${newId()}`), 404).text, foreign.text)
    },
  },
]

/** A row for each of the three verbs. */
const ofEach = (id: string, sentence: string, check: (context: Context, verb: string) => Promise<void>): Checked[] =>
  verbs.map((verb) => ({ id: `${verb}.${id}`, sentence, check: (context) => check(context, verb) }))

/** A desktop that permits the verb. */
async function ready(context: Context, verb: string): Promise<string> {
  if (verb === 'destroy') return (await context.fresh()).id
  return verb === 'wake' ? context.asleep() : context.awake()
}

const mutating: Chapter['rows'] = [
  ...ofEach('202', '202 | Operation enqueued, no `?wait=true`; operation is `pending`', async (context, verb) => {
    const id = await ready(context, verb)
    const { json } = status(verb, await context.post(`/v1/desktops/${id}/${verb}`), 202)
    same('the operation', [json.desktop_id, json.state, json.result, json.error], [id, 'pending', null, null])
    await settles(context, json.id)
  }),
  ...ofEach('200', '200 | Operation settled', async (context, verb) => {
    const id = await ready(context, verb)
    const { json } = status(verb, await context.post(`/v1/desktops/${id}/${verb}?wait=true`), 200)
    const unsettled = ['pending', 'running', 'failed'].includes(json.state)
    same('desktop and error', [json.desktop_id, json.error, unsettled], [id, null, false])
  }),
  ...ofEach(
    '400',
    '400 | Malformed id or body, invalid `wait` value, non-ASCII Idempotency-Key',
    async (context, verb) => {
      const path = `/v1/desktops/${newId()}/${verb}`
      problem('id', await context.post(`/v1/desktops/nonsense/${verb}`), 400)
      for (const body of ['{', '[]', '"x"', '{"expected_generation":"1"}'])
        problem(body, await context.post(path, body), 400)
      for (const wait of ['yes', '', 'TRUE', '1'])
        problem(`wait=${wait}`, await context.post(`${path}?wait=${wait}`), 400)
      problem('key', await context.post(path, {}, notAscii), 400)
    },
  ),
  ...verbs.map((verb) => unauthenticated(`${verb}.401`, 'POST', (id) => `/v1/desktops/${id}/${verb}`)),
  ...ofEach('404', '404 | Desktop not found or belongs to another organisation', async (context, verb) => {
    const foreign = problem('foreign', await context.post(`/v1/desktops/${await context.foreign()}/${verb}`), 404)
    const missing = problem('missing', await context.post(`/v1/desktops/${newId()}/${verb}`), 404)
    same('foreign and missing', foreign.text, missing.text)
  }),
  ...ofEach(
    '409',
    '409 | Stale `expected_generation`; wrong desktop state for the transition',
    async (context, verb) => {
      const id = await context.awake()
      const { generation } = await context.see(id)
      const stale = { expected_generation: generation - 1 }
      problem('stale', await context.post(`/v1/desktops/${id}/${verb}`, stale), 409)
      const gone = await context.fresh()
      await context.settled(gone.id, 'destroy')
      problem('wrong state', await context.post(`/v1/desktops/${gone.id}/${verb}`), 409)
    },
  ),
  ...verbs.map((verb) => ({
    id: `${verb}.503`,
    sentence: '503 | The receiving node is not the leader',
    needs: 'second replica',
    provedBy: ['test/integration/leadership.test.ts', 'a replica that does not lead answers 503'] as [string, string],
  })),
  ...ofEach(
    'repeat',
    'A repeat request with the same (desktop, key) returns the existing Operation handle instead of enqueueing a duplicate.',
    async (context, verb) => {
      const id = await ready(context, verb)
      const key = context.newKey()
      const path = `/v1/desktops/${id}/${verb}`
      const ask = () => context.post(path, {}, key)
      const answers = await Promise.all([ask(), ask(), ask()])
      for (const answer of answers) status(verb, answer, 200, 202)
      same('operations', new Set(answers.map(({ json }) => json.id)).size, 1)
      await settles(context, answers[0]!.json.id)
      same('the operation later', status(verb, await ask(), 200).json.id, answers[0]!.json.id)
    },
  ),
]

const operations: Chapter['rows'] = [
  {
    id: 'operation.200',
    sentence: 'GET /v1/operations/{id} | Returns the current Operation.',
    async check(context) {
      const { id } = await context.fresh()
      const { json } = await context.settled(id, 'destroy')
      same('the operation', status('get', await context.get(`/v1/operations/${json.id}`), 200).json, json)
    },
  },
  {
    id: 'operation.400',
    sentence: '400 for an invalid operation id',
    async check(context) {
      problem('nonsense', await context.get('/v1/operations/nonsense'), 400)
    },
  },
  unauthenticated('operation.401', 'GET', (id) => `/v1/operations/${id}`),
  {
    id: 'operation.404',
    sentence: '404 when the operation does not exist or belongs to another organisation',
    async check(context) {
      const { id } = await context.fresh()
      const path = `/v1/operations/${(await context.settled(id, 'destroy')).json.id}`
      const foreign = problem('foreign', await context.get(path, { key: context.otherKey }), 404)
      const missing = problem('missing', await context.get(`/v1/operations/${newId()}`), 404)
      same('foreign and missing', foreign.text, missing.text)
    },
  },
]

/** A route refuses whoever shows no credential, before it looks at anything else. */
export function unauthenticated(id: string, method: string, path: (id: string) => string): Checked {
  return {
    id,
    sentence: '401 | Missing or invalid credentials',
    async check(context) {
      for (const key of [null, 'garbage'])
        for (const named of [newId(), 'nonsense'])
          problem(`${key}`, await context.ask(method, path(named), { key }), 401)
    },
  }
}

export const endpoints: Chapter = {
  title: 'Endpoints',
  rows: [...bodies, ...listing, ...creating, ...reading, ...mutating, ...operations],
}
