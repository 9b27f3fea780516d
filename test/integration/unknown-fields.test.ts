// Guarantee: a field or a query parameter that a route does not know is refused by its name, on every route.
import { newId } from '@dormouse/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Stack } from '../stack.ts'

let stack: Stack
let operator: string

beforeAll(async () => {
  stack = await Stack.start({ hosts: 0 })
  operator = await stack.replica.parts.principals.createOperatorKey('ops')
})
afterAll(() => stack[Symbol.asyncDispose]())

interface Described {
  paths: Record<string, Record<string, { requestBody?: { content: Record<string, unknown> } }>>
}

/** As the document has it, with ids that nothing has. */
async function customerRoutes() {
  const { paths } = (await stack.api('GET', '/v1/openapi.json', { key: null })).json as Described
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, { requestBody }]) => ({
      method: method.toUpperCase(),
      path: path.replaceAll(/\{[^}]+\}/g, (name) => (name === '{path}' ? 'x' : newId())),
      takesJson: requestBody?.content['application/json'] !== undefined,
    })),
  )
}

const refused = (what: string) => ({
  status: 400,
  code: 'invalid_request',
  field: 'no_such_name',
  detail: expect.stringMatching(`^unknown ${what} "no_such_name"; `),
})

test('on every route of customers', async () => {
  const routes = await customerRoutes()
  expect(routes.length).toBeGreaterThan(50)
  for (const { method, path, takesJson } of routes.filter(({ path }) => !path.endsWith('/fork'))) {
    const { json } = await stack.api(method, `${path}?no_such_name=1`)
    expect([method, path, json]).toMatchObject([method, path, refused('query parameter')])
    if (!takesJson) continue
    const answer = await stack.api(method, path, { body: { no_such_name: null } })
    expect([method, path, answer.json]).toMatchObject([method, path, refused('field')])
  }
})

const [host, id] = ['sim-1', newId()]
const operatorRoutes: [method: string, path: string, takesJson?: 'json'][] = [
  ['GET', '/orgs'],
  ['POST', '/orgs', 'json'],
  ['PATCH', `/orgs/${id}`, 'json'],
  ['POST', '/keys', 'json'],
  ['GET', '/keys'],
  ['DELETE', `/keys/${id}`, 'json'],
  ['GET', '/hosts'],
  ['POST', '/hosts/invites', 'json'],
  ['POST', `/hosts/${host}/cordon`, 'json'],
  ['POST', `/hosts/${host}/trust`, 'json'],
  ['POST', `/hosts/${host}/drain`, 'json'],
  ['POST', `/hosts/${host}/removal`, 'json'],
  ['POST', `/hosts/${host}/loss`, 'json'],
  ['POST', `/hosts/${host}/return`, 'json'],
  ['POST', `/hosts/${host}/drop-warm-copies`, 'json'],
  ['POST', `/drains/${id}/cancel`, 'json'],
  ['GET', `/hosts/${host}/removal`],
  ['GET', `/drains/${id}`],
  ['GET', '/images'],
  ['POST', '/images', 'json'],
  ['POST', '/images/mini@1/use', 'json'],
  ['POST', '/images/mini@1/retire', 'json'],
  ['GET', '/audit'],
  ['GET', '/desktops'],
  ['GET', '/deferred-commands'],
  ['POST', `/desktops/${id}/hibernate`, 'json'],
  ['POST', `/desktops/${id}/wake`, 'json'],
  ['POST', `/desktops/${id}/move`, 'json'],
  ['GET', `/operations/${id}`],
  ['GET', '/events'],
]

test.each(operatorRoutes)('on %s /admin/v1%s of operators', async (method, path, takesJson) => {
  const { json } = await stack.api(method, `/admin/v1${path}?no_such_name=1`, { key: operator })
  expect(json).toMatchObject(refused('query parameter'))
  if (!takesJson) return
  const answer = await stack.api(method, `/admin/v1${path}`, { key: operator, body: { no_such_name: 1 } })
  expect(answer.json).toMatchObject(refused('field'))
})

test('the nearest known name is suggested, at every depth', async () => {
  const create = (body: object) => stack.api('POST', '/v1/desktops', { body })
  const at = `/v1/desktops/${newId()}`
  const asked: [() => ReturnType<typeof create>, string, string][] = [
    [() => create({ teir: 'small' }), 'teir', 'unknown field "teir"; did you mean "tier"?'],
    [() => create({ tier: 'small', imageVersion: 'x' }), 'imageVersion', 'did you mean "image_version"'],
    [() => create({ tier: 'small', idle_timeout: 5 }), 'idle_timeout', 'did you mean "idle_timeout_secs"?'],
    [
      () => create({ tier: 'small', colour: 'red' }),
      'colour',
      'unknown field "colour"; this route takes tier, billing_mode, image_version, ',
    ],
    [
      () => stack.api('GET', '/v1/desktops?stat=awake'),
      'stat',
      'unknown query parameter "stat"; did you mean "state"?',
    ],
    [() => stack.api('GET', `${at}/idle?wait=true`), 'wait', 'this route takes no query parameter; leave it out'],
    [() => stack.api('POST', `${at}/wake?wiat=true`), 'wiat', 'did you mean "wait"?'],
    [
      () => stack.api('POST', `${at}/input`, { body: { actions: [{ type: 'click', x: 1, y: 1, buton: 'left' }] } }),
      'actions.0.buton',
      'unknown field "actions.0.buton"; did you mean "button"?',
    ],
    [
      () => stack.api('POST', `${at}/input`, { body: { actions: [], settle: { quietms: 1 } } }),
      'settle.quietms',
      'did you mean "quiet_ms"?',
    ],
    [
      () => stack.api('POST', `${at}/execs`, { body: { command: 'x', tty: { columns: 80, rows: 24 } } }),
      'tty.columns',
      'unknown field "tty.columns"; ',
    ],
  ]
  for (const [ask, field, detail] of asked) {
    const { json } = await ask()
    expect(json).toMatchObject({ status: 400, field, detail: expect.stringContaining(detail) })
  }
})

test('null for an optional field is as if it were left out, and the contract’s own bodies are taken', async () => {
  const nulls = { billing_mode: null, image_version: null, idle_timeout_secs: null }
  expect((await stack.api('POST', '/v1/desktops', { body: { tier: 'small', ...nulls } })).status).toBe(201)
  const { id } = await stack.desktop()
  const wake = await stack.api('POST', `/v1/desktops/${id}/wake`, { body: { expected_generation: null } })
  expect(wake.status).toBe(202)
})
