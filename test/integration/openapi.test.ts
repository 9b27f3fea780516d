import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { newId } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { AnswerChecker, type Exchange, type OpenApi } from '../openapi.ts'
import { Stack } from '../stack.ts'
import type { ApiWish } from './parts/api.ts'

interface Described extends OpenApi {
  openapi: string
  servers?: unknown
  security: unknown
  paths: Record<string, Record<string, DescribedOperation>>
}
interface DescribedOperation {
  operationId?: string
  summary?: string
  tags?: string[]
  security?: unknown[]
  parameters?: { name: string; in: string }[]
  requestBody?: { required?: boolean }
  responses: Record<string, { headers?: object; description?: string } & { $ref: string }>
}

const documentOf = async (stack: Stack): Promise<Described> =>
  (await stack.api('GET', '/v1/openapi.json', { key: null })).json as Described

const operationsOf = (document: Described) =>
  Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      name: `${method.toUpperCase()} ${path}`,
      path,
      operation,
    })),
  )

/** The spec's tables: what each route must be documented to answer. */
const tables: Record<string, number[]> = {
  'GET /v1/openapi.json': [200],
  'GET /v1/desktops': [200, 400, 401],
  'POST /v1/desktops': [200, 201, 400, 401],
  'GET /v1/desktops/{id}': [200, 400, 401, 404],
  'POST /v1/desktops/{id}/wake': [200, 202, 400, 401, 404, 409, 503],
  'POST /v1/desktops/{id}/hibernate': [200, 202, 400, 401, 404, 409, 503],
  'POST /v1/desktops/{id}/destroy': [200, 202, 400, 401, 404, 409, 503],
  'GET /v1/operations/{id}': [200, 400, 401, 404],
  'POST /v1/desktops/{id}/fork': [401, 501],
  'POST /v1/desktops/{id}/exec': [200, 400, 401, 404, 409, 413, 503, 504],
  'GET /v1/usage': [200, 400, 401],
}

test('the document is OpenAPI 3.1, served without a credential, fixes no server, and lists itself and customers only', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  const document = await documentOf(stack)
  expect(document.openapi).toMatch(/^3\.1\./)
  expect(document).not.toHaveProperty('servers')
  const names = operationsOf(document).map(({ name }) => name)
  expect(names).toEqual(expect.arrayContaining(Object.keys(tables)))
  expect(names.filter((name) => !name.includes(' /v1/'))).toEqual([])
})

test('every route names its operation, tag, summary, credential and statuses, those of the contract among them', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  const document = await documentOf(stack)
  const seen = new Set<string>()
  for (const { name, operation } of operationsOf(document)) {
    const { operationId = '', summary, tags, responses, security } = operation
    expect(seen.has(operationId), `${name}: ${operationId}`).toBe(false)
    seen.add(operationId)
    expect([name, operationId !== '', Boolean(summary), tags?.length]).toEqual([name, true, true, 1])
    const statuses = Object.keys(responses).map(Number)
    expect([name, ...(tables[name] ?? []).filter((status) => !statuses.includes(status))]).toEqual([name])
    expect([name, statuses.some((status) => status < 300)]).toEqual([name, !name.endsWith('/fork')])
    const isOpen = name === 'GET /v1/openapi.json'
    expect([name, security, statuses.includes(401)]).toEqual([name, isOpen ? [] : undefined, !isOpen])
  }
  expect(document.security).toEqual([{ bearer: [] }])
})

test('keyed routes take an Idempotency-Key and say when they replay; their bodies are optional but for create, bulk and input', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  const keyed = operationsOf(await documentOf(stack)).filter(({ operation }) =>
    operation.parameters?.some(({ name }) => name === 'Idempotency-Key'),
  )
  expect(keyed.map(({ name }) => name).sort()).toEqual([
    'POST /v1/desktops',
    'POST /v1/desktops/bulk',
    'POST /v1/desktops/{id}/destroy',
    'POST /v1/desktops/{id}/exec',
    'POST /v1/desktops/{id}/execs',
    'POST /v1/desktops/{id}/hibernate',
    'POST /v1/desktops/{id}/input',
    'POST /v1/desktops/{id}/wake',
  ])
  for (const { path, operation } of keyed) {
    const isWhole = /^\/v1\/desktops(\/bulk)?$/.test(path) || /\/(execs?|input)$/.test(path)
    expect([path, operation.requestBody?.required]).toEqual([path, isWhole])
    expect(operation.responses['200']?.headers).toHaveProperty('idempotency-replayed')
  }
})

test('every schema has its own name: none is there twice for requests and answers', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  const { schemas } = (await documentOf(stack)).components
  expect(Object.keys(schemas!).filter((name) => name.endsWith('Input'))).toEqual([])
  expect(Object.keys(schemas!)).toEqual(
    expect.arrayContaining(['CreateDesktopBody', 'Desktop', 'Operation', 'Problem']),
  )
})

test('Redocly’s linter has nothing to say about it', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  const folder = mkdtempSync(join(tmpdir(), 'dormouse-openapi-'))
  try {
    const file = join(folder, 'openapi.json')
    writeFileSync(file, JSON.stringify(await documentOf(stack)))
    const config = join(import.meta.dirname, 'parts/redocly.yaml')
    const redocly = join(import.meta.dirname, '../../node_modules/@redocly/cli/bin/cli.js')
    const env = { ...process.env, REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' }
    const { stdout } = await promisify(execFile)(
      process.execPath,
      [redocly, 'lint', file, '--config', config, '--format', 'json'],
      { env },
    )
    expect(JSON.parse(stdout)).toMatchObject({ totals: { errors: 0, warnings: 0, ignored: 0 } })
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})

interface Media {
  schema: object
  example?: unknown
}

/** Every body of JSON, of requests and of successes. */
const bodiesOf = (document: Described): [name: string, media: Media][] =>
  operationsOf(document).flatMap(({ name, operation }) => {
    const { requestBody, responses } = operation as { requestBody?: { content: Record<string, Media> } } & {
      responses: Record<string, { content?: Record<string, Media> }>
    }
    const contents = Object.entries({ body: requestBody ?? {}, ...responses } as typeof responses)
    return contents.flatMap(([what, { content = {} }]) =>
      Object.entries(content)
        .filter(([type]) => type === 'application/json')
        .map(([, media]): [string, Media] => [`${name} ${what}`, media]),
    )
  })

test('every body and every answer has an example, which is valid', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  const document = await documentOf(stack)
  const bodies = bodiesOf(document)
  expect(bodies.length).toBeGreaterThan(60)
  expect(bodies.filter(([, { example }]) => example === undefined).map(([name]) => name)).toEqual([])
  const checker = new AnswerChecker(document)
  expect(bodies.flatMap(([name, { schema, example }]) => checker.wrongIn(name, schema, example))).toEqual([])
  const [, create] = bodies.find(([name]) => name === 'POST /v1/desktops body')!
  expect((await stack.api('POST', '/v1/desktops', { body: create.example })).status).toBe(201)
})

/** What engines of every language read alike: no look-around, no named group, no class of Unicode, no code point. */
const plainPattern = /^(?:[ !-[\]-~]|\\[\\dDwWsSbtrn.\-/()[\]{}*+?^$|])*$/

/** Every schema of the document, at any depth. */
function* schemasIn(value: unknown): Generator<Record<string, unknown>> {
  if (typeof value !== 'object' || value === null) return
  yield value as Record<string, unknown>
  for (const inner of Object.values(value)) yield* schemasIn(inner)
}

test('patterns are read alike by engines of every language; numbers and booleans of a query are such', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  const document = await documentOf(stack)
  const patterns = [...schemasIn(document)].flatMap(({ pattern }) => (typeof pattern === 'string' ? [pattern] : []))
  expect(patterns.length).toBeGreaterThan(5)
  expect(patterns.filter((pattern) => !plainPattern.test(pattern) || /\(\?(?!:)/.test(pattern))).toEqual([])
  const queries = operationsOf(document).flatMap(({ operation }) => operation.parameters ?? []) as unknown as {
    name: string
    schema: { type?: string; pattern?: string; enum?: unknown[] }
  }[]
  const types = (name: string) => [
    ...new Set(queries.filter((one) => one.name === name).map(({ schema }) => schema.type)),
  ]
  for (const name of ['eof', 'recursive']) expect([name, types(name)]).toEqual([name, ['boolean']])
  expect(types('wait')).toEqual(['boolean', 'string'])
  for (const name of ['offset', 'stderr_offset', 'window', 'wait_secs', 'limit', 'depth', 'fit', 'quiet_ms'])
    expect([name, types(name)]).toEqual([name, ['integer']])
  const texts = queries.filter(
    ({ schema }) => schema.enum?.includes('true') || /^\^\\d[^,]*$/.test(schema.pattern ?? ''),
  )
  expect(texts.map(({ name }) => name)).toEqual([])
})

test('Spectral finds no error, and warns only of what the contract wants otherwise', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  const [{ Spectral }, { oas }] = await Promise.all([
    import('@stoplight/spectral-core'),
    import('@stoplight/spectral-rulesets'),
  ])
  const spectral = new Spectral()
  spectral.setRuleset({ extends: [[oas as never, 'recommended']] })
  const found = await spectral.run((await documentOf(stack)) as never)
  const codes = new Set(found.map(({ code }) => String(code)))
  // No address is fixed, nobody is to be written to, a summary may say all, and fork and attach never answer 2xx.
  const wanted = ['oas3-api-servers', 'info-contact', 'operation-description', 'operation-success-response']
  expect([...codes].filter((code) => !wanted.includes(code))).toEqual([])
  expect(found.filter(({ severity }) => severity === 0)).toEqual([])
})

test('what routes really answer is what the document says', async () => {
  await using stack = await Stack.start()
  const ask = async (method: string, path: string, wish: ApiWish = {}) => (await stack.api(method, path, wish)).status
  const { id } = await stack.desktop()
  const keyed = { body: { tier: 'small' }, headers: { 'idempotency-key': 'k' } }
  const statuses = [
    await ask('GET', '/v1/openapi.json', { key: null }),
    await ask('POST', '/v1/desktops', keyed),
    await ask('POST', '/v1/desktops', keyed),
    await ask('POST', '/v1/desktops', { ...keyed, body: { tier: 'large' } }),
    await ask('POST', '/v1/desktops', { body: { tier: 'huge' } }),
    await ask('POST', '/v1/desktops', { body: '{broken' }),
    await ask('POST', '/v1/desktops', { body: ' '.repeat(2 * 1024 * 1024 + 1) }),
    await ask('GET', '/v1/desktops?limit=1'),
    await ask('GET', '/v1/desktops?state=none', {}),
    await ask('GET', '/v1/desktops', { key: null }),
    await ask('GET', `/v1/desktops/${id.toUpperCase()}`),
    await ask('HEAD', `/v1/desktops/${id}`),
    await ask('GET', `/v1/desktops/${newId()}`),
    await ask('POST', `/v1/desktops/${id}/exec`, { body: { command: 'true' } }),
    await ask('POST', `/v1/desktops/${id}/wake`),
    await ask('POST', `/v1/desktops/${id}/hibernate`, { body: { expected_generation: 99 } }),
    await ask('GET', `/v1/desktops/${id}/operations`),
    await ask('POST', `/v1/desktops/${id}/fork`),
    await ask('GET', '/v1/usage'),
    await ask('GET', '/v1/usage?start=x'),
    await ask('GET', '/v1/nothing/here'),
  ]
  expect(statuses).toEqual([
    200, 201, 200, 200, 400, 400, 413, 200, 400, 401, 200, 200, 404, 409, 202, 409, 200, 501, 200, 400, 404,
  ])
  await stack.becomes(id, 'awake')
  expect(await ask('POST', `/v1/desktops/${id}/exec`, { body: { command: 'echo hello' } })).toBe(200)
  expect(await ask('POST', `/v1/desktops/${id}/hibernate?wait=true`)).toBe(200)
  expect(await ask('POST', `/v1/desktops/${id}/destroy?wait=true`)).toBe(200)
})

test('an answer with another status, header, media type or field than documented is found', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  const checker = new AnswerChecker(await documentOf(stack))
  const { id } = await stack.desktop()
  const path = `/v1/desktops/${id}`
  const good: Exchange = { method: 'GET', path, ...(await stack.api('GET', path)) }
  const json = JSON.parse(good.text) as object
  expect(checker.complaints(good)).toEqual([])
  const bad: [Partial<Exchange>, RegExp][] = [
    [{ status: 409 }, /does not name this status/],
    [{ status: 404 }, /Content-Type application\/json is not documented/],
    [{ headers: { ...good.headers, 'x-powered-by': 'mice' } }, /x-powered-by is not documented/],
    [{ headers: { ...good.headers, 'x-request-id': undefined } }, /x-request-id is missing/],
    [{ text: JSON.stringify({ ...json, secret: 1 }) }, /additional properties/],
    [{ text: JSON.stringify({ ...json, state: 'dreaming' }) }, /allowed values/],
    [{ text: JSON.stringify({ ...json, created_at: 'today' }) }, /created_at/],
    [{ text: 'no' }, /not JSON/],
    [{ path: '/v1/nothing', status: 200 }, /no such path/],
  ]
  for (const [change, complaint] of bad) {
    expect(checker.complaints({ ...good, ...change }).join()).toMatch(complaint)
  }
})

test('whoever opens the service’s address in a browser sees the first calls, with this address', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  const page = await stack.api('GET', '/', { key: null })
  expect([page.status, page.headers['content-type']]).toEqual([200, 'text/html; charset=utf-8'])
  expect(page.headers['content-security-policy']).toContain(`default-src 'none'`)
  for (const name of ['client', 'dormouse', 'mcp']) expect(page.text).toContain(`${stack.url}/sdk/${name}.tgz`)
  expect(page.text).toContain('href="/docs"')
  const forged = await stack.api('GET', '/', { key: null, headers: { host: '"><script>' } })
  expect(forged.text).not.toContain('<script>')
})

test('whoever looks for it at the usual places is led to it', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  for (const path of ['/openapi.json', '/swagger.json']) {
    const answer = await stack.api('GET', path, { key: null })
    expect([answer.status, answer.headers.location]).toEqual([302, '/v1/openapi.json'])
  }
})

test('the page to read it at comes from here alone, and its policy forbids everything else', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  const page = await stack.api('GET', '/docs', { key: null })
  expect([page.status, page.headers['content-type']]).toEqual([200, 'text/html; charset=utf-8'])
  const sources = [...page.text.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, source]) => source!)
  expect(sources.filter((source) => source.startsWith('/'))).toHaveLength(3)
  expect(sources.filter((source) => !source.startsWith('/docs/') && source !== 'data:,')).toEqual([])
  for (const source of sources.filter((one) => one.startsWith('/'))) {
    const part = await stack.api('GET', source, { key: null })
    expect([source, part.status, part.text.length > 100]).toEqual([source, 200, true])
    expect(part.headers['content-security-policy']).toContain(`default-src 'none'`)
  }
})
