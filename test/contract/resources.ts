// The chapter "Resources and their fields".
import type { ApiAnswer } from '../integration/parts/api.ts'
import { holds, problem, same, status } from './assertions.ts'
import type { Context } from './context.ts'
import type { Chapter, Checked } from './row.ts'

const create = (context: Context, body: unknown): Promise<ApiAnswer> => context.post('/v1/desktops', body)

const desktopFields = [
  'id',
  'org_id',
  'tier',
  'state',
  'image_version',
  'generation',
  'current_generation_id',
  'idle_timeout_secs',
  'billing_mode',
  'host_id',
]
const operationFields = ['id', 'desktop_id', 'kind', 'state', 'result', 'error']

/** A field of an awake desktop, and whether it is what the contract says it means. */
function desktopField(name: string, meaning: string, isSo: (desktop: Record<string, unknown>) => boolean): Checked {
  return {
    id: `desktop.${name}`,
    sentence: `${name} | ${meaning}`,
    async check(context) {
      const id = await context.awake()
      const { json } = status('get', await context.get(`/v1/desktops/${id}`), 200)
      holds(name, json[name], meaning, isSo({ ...json, asked: id }))
    },
  }
}

const isText = (value: unknown) => typeof value === 'string' && value !== ''

/** A body of create that is refused. */
function refused(id: string, sentence: string, bodies: unknown[]): Checked {
  return {
    id,
    sentence,
    async check(context) {
      for (const body of bodies) problem(JSON.stringify(body), await create(context, body), 400)
    },
  }
}

const desktops: Chapter['rows'] = [
  {
    id: 'desktop.full',
    sentence: 'Returned in full by create (200 or 201) and by get. Listing returns an array of these.',
    async check(context) {
      const key = context.newKey()
      const made = status('create', await context.post('/v1/desktops', { tier: 'small' }, key), 201).json
      const again = status('create again', await context.post('/v1/desktops', { tier: 'small' }, key), 200).json
      const list = (await context.get('/v1/desktops')).json.desktops as { id: string }[]
      const listed = list.find(({ id }) => id === made.id) ?? {}
      for (const each of [made, again, listed, await context.see(made.id)])
        for (const field of desktopFields) holds('desktop', Object.keys(each), field, field in each)
    },
  },
  {
    id: 'desktop.snake-case',
    sentence: 'Wire names are snake_case.',
    async check(context) {
      const names = Object.keys(await context.see(await context.idle()))
      for (const name of names) holds('name', name, 'snake_case', /^[a-z]+(_[a-z]+)*$/.test(name))
    },
  },
  desktopField('id', 'Desktop identifier', ({ id, asked }) => isText(id) && id === asked),
  desktopField('tier', 'One of `small`, `default`, `large`', ({ tier }) => tier === 'small'),
  desktopField('state', 'Lifecycle state; `awake` is a value', ({ state }) => state === 'awake'),
  desktopField('image_version', 'Image version of the desktop', ({ image_version }) => isText(image_version)),
  desktopField('generation', 'Fencing generation of the desktop', ({ generation }) => Number.isInteger(generation)),
  desktopField('current_generation_id', 'Identifier of the current generation', (desktop) =>
    isText(desktop.current_generation_id),
  ),
  desktopField('idle_timeout_secs', 'Idle time-out in seconds', (desktop) =>
    Number.isInteger(desktop.idle_timeout_secs),
  ),
  desktopField('billing_mode', '`monthly` or `hourly`', ({ billing_mode }) =>
    ['monthly', 'hourly'].includes(String(billing_mode)),
  ),
  desktopField('host_id', 'Host the desktop is placed on', ({ host_id }) => isText(host_id)),
  {
    id: 'desktop.org_id',
    sentence: 'org_id | Owning organisation',
    async check(context) {
      const orgOf = async (id: string, key: string) => (await context.get(`/v1/desktops/${id}`, { key })).json.org_id
      const mine = await orgOf(await context.idle(), context.key)
      same('another desktop', await orgOf((await context.fresh()).id, context.key), mine)
      const theirs = await orgOf(await context.foreign(), context.otherKey)
      holds('org_id of another organisation', theirs, `not ${mine}`, isText(theirs) && theirs !== mine)
    },
  },
]

const createBody: Chapter['rows'] = [
  refused('create.tier', 'tier | string | yes | One of `small`, `default`, `large`', [
    {},
    { tier: null },
    { tier: '' },
    { tier: 'huge' },
    { tier: 1 },
  ]),
  {
    id: 'create.tiers',
    sentence: 'One of `small`, `default`, `large`',
    async check(context) {
      for (const tier of ['small', 'default', 'large']) same('tier', (await create(context, { tier })).json?.tier, tier)
    },
  },
  {
    id: 'create.billing_mode',
    sentence: '`monthly` or `hourly`; defaults to `hourly` when omitted or empty',
    async check(context) {
      for (const [given, expected] of [
        [undefined, 'hourly'],
        [null, 'hourly'],
        ['', 'hourly'],
        ['hourly', 'hourly'],
        ['monthly', 'monthly'],
      ]) {
        const made = status('create', await create(context, { tier: 'small', billing_mode: given }), 201)
        same(`billing_mode ${JSON.stringify(given)}`, made.json.billing_mode, expected)
      }
    },
  },
  refused('create.billing_mode.invalid', '400 | Invalid tier or billing_mode', [
    { tier: 'small', billing_mode: 'yearly' },
    { tier: 'small', billing_mode: 1 },
  ]),
  {
    id: 'create.image_version',
    sentence: 'image_version | string or null | no',
    async check(context) {
      const { image_version } = status('create', await create(context, { tier: 'small' }), 201).json
      const made = await create(context, { tier: 'small', image_version })
      same('image_version', status('create', made, 201).json.image_version, image_version)
      status('null', await create(context, { tier: 'small', image_version: null }), 201)
      problem('a number', await create(context, { tier: 'small', image_version: 7 }), 400)
    },
  },
  {
    id: 'create.idle_timeout_secs',
    sentence: 'idle_timeout_secs | integer or null | no',
    async check(context) {
      const made = await create(context, { tier: 'small', idle_timeout_secs: 7200 })
      same('idle_timeout_secs', status('create', made, 201).json.idle_timeout_secs, 7200)
      status('null', await create(context, { tier: 'small', idle_timeout_secs: null }), 201)
      for (const wrong of [1.5, '5', true])
        problem(String(wrong), await create(context, { tier: 'small', idle_timeout_secs: wrong }), 400)
    },
  },
]

const mutationBody: Chapter['rows'] = [
  {
    id: 'mutation.expected_generation',
    sentence:
      'expected_generation | integer or null | no | Fencing generation the caller expects the desktop to be on. A stale value gives 409.',
    async check(context) {
      const id = await context.awake()
      const { generation } = await context.see(id)
      for (const verb of ['wake', 'hibernate', 'destroy'])
        for (const expected_generation of [generation - 1, generation + 1])
          problem(verb, await context.post(`/v1/desktops/${id}/${verb}`, { expected_generation }), 409)
      for (const wrong of ['1', 1.5])
        problem(String(wrong), await context.post(`/v1/desktops/${id}/wake`, { expected_generation: wrong }), 400)
      const path = `/v1/desktops/${id}/hibernate?wait=true`
      status('the right one', await context.post(path, { expected_generation: generation }), 200)
      status('null', await context.post(`/v1/desktops/${id}/wake?wait=true`, { expected_generation: null }), 200)
    },
  },
  {
    id: 'mutation.empty',
    sentence: 'An empty body is equivalent to `{}`.',
    async check(context) {
      const id = await context.asleep()
      for (const [verb, body] of [
        ['wake', ''],
        ['hibernate', undefined],
        ['wake', {}],
      ])
        status(`${verb} ${body}`, await context.post(`/v1/desktops/${id}/${verb}?wait=true`, body), 200)
    },
  },
]

const operations: Chapter['rows'] = [
  {
    id: 'operation.fields',
    sentence: 'id | desktop_id | kind | state | result | error; a wake operation has kind `wake`',
    async check(context) {
      const id = await context.asleep()
      const { json } = await context.settled(id, 'wake')
      for (const field of operationFields) holds('operation', Object.keys(json), field, field in json)
      same('kind and desktop_id', [json.kind, json.desktop_id], ['wake', id])
    },
  },
  {
    id: 'operation.fresh',
    sentence: 'result, error | null in a freshly enqueued operation',
    async check(context) {
      const id = await context.asleep()
      const { json } = status('wake', await context.post(`/v1/desktops/${id}/wake`), 202)
      same('state, result, error', [json.state, json.result, json.error], ['pending', null, null])
      await settles(context, json.id)
    },
  },
  {
    id: 'operation.error',
    sentence: 'on a failed operation it carries the failure text',
    async check(context) {
      const { wake } = await context.failing()
      const settled = await settles(context, wake.id)
      same('state', settled.state, 'failed')
      holds('error', settled.error, 'a text', isText(settled.error))
    },
  },
]

/** Waits, for as long as the request may last, until an operation is neither pending nor running. */
export async function settles(context: Context, id: string): Promise<{ state: string; error: unknown }> {
  for (;;) {
    const { json } = status('operation', await context.get(`/v1/operations/${id}`), 200)
    if (json.state !== 'pending' && json.state !== 'running') return json
    await new Promise((resolve) => setTimeout(resolve, 200))
  }
}

export const resources: Chapter = {
  title: 'Resources and their fields',
  rows: [...desktops, ...createBody, ...mutationBody, ...operations],
}
