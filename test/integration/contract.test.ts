// Guarantee: every sentence of the contract that can be seen over HTTP is true of this stack, and each of the others names
// a test that is there.
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Context } from '../contract/context.ts'
import type { Checked, Unseen } from '../contract/row.ts'
import { chapters } from '../contract/table.ts'
import { Stack } from '../stack.ts'

const root = join(import.meta.dirname, '../..')
const rows = chapters.flatMap((chapter) => chapter.rows)
const checked = rows.filter((row): row is Checked => 'check' in row && !row.slow)
const unseen = rows.filter((row): row is Unseen => 'needs' in row)
const elsewhereToo = rows.flatMap((row) => {
  const provedBy = 'needs' in row ? row.provedBy : row.slow?.provedBy
  return provedBy ? [{ id: row.id, provedBy }] : []
})

let stack: Stack
let context: Context

beforeAll(async () => {
  stack = await Stack.start()
  const place = { url: stack.url, key: stack.org.key, otherKey: (await stack.otherOrg).key }
  context = new Context(place)
})

afterAll(async () => {
  const left = await context.close()
  const document = (await stack.api('GET', '/v1/openapi.json')).json
  const untrue = context.complaints(document)
  for (const answer of context.answers) stack.secrets.learnFrom(answer)
  left.push(...context.answers.flatMap((answer) => stack.secrets.inAnswer(answer)))
  await stack[Symbol.asyncDispose]()
  expect([...left, ...untrue]).toEqual([])
})

test.each(checked)('$id: $sentence', (row) => row.check(context))

test.each(elsewhereToo)('$id is proved by a test that is there', ({ provedBy: [file, name] }) => {
  expect(titlesIn(readFileSync(join(root, file), 'utf8')).filter((title) => title.startsWith(name))).toHaveLength(1)
})

test('every status in the contract’s tables came over HTTP, or is proved by the test that its row names', () => {
  const seen = new Set(context.answers.map(({ method, path, status }) => `${routeOf(method, path)} ${status}`))
  const rowIds = new Set(unseen.map(({ id }) => id))
  const missing = Object.entries(tables)
    .flatMap(([route, statuses]) => statuses.map((status) => `${route} ${status}`))
    .filter((one) => !seen.has(one) && !rowIds.has(elsewhere[one] ?? ''))
  expect(missing).toEqual([])
})

const verbStatuses = [200, 202, 400, 401, 404, 409, 413, 503]
/** As the contract has them; what is said of all routes stands with those that take a body. */
const tables: Record<string, number[]> = {
  'GET /v1/openapi.json': [200],
  'GET /v1/desktops': [200, 400, 401],
  'POST /v1/desktops': [200, 201, 400, 401, 413],
  'GET /v1/desktops/{id}': [200, 400, 401, 404, 500],
  'POST /v1/desktops/{id}/wake': verbStatuses,
  'POST /v1/desktops/{id}/hibernate': verbStatuses,
  'POST /v1/desktops/{id}/destroy': verbStatuses,
  'GET /v1/operations/{id}': [200, 400, 401, 404],
  'POST /v1/desktops/{id}/fork': [401, 501],
  'PUT /v1/desktops/{id}/files': [200, 400, 401, 404, 409, 413, 503, 504],
  'POST /v1/desktops/{id}/exec': [200, 400, 401, 404, 409, 413, 503, 504],
  'POST /v1/desktops/{id}/stream': [200, 400, 401, 404, 409, 413],
  'GET /v1/usage': [200, 400, 401],
}
/** What two keys cannot bring about, and the row that names its test. */
const elsewhere: Record<string, string> = {
  'GET /v1/desktops/{id} 500': 'errors.500',
  'POST /v1/desktops/{id}/wake 503': 'wake.503',
  'POST /v1/desktops/{id}/hibernate 503': 'hibernate.503',
  'POST /v1/desktops/{id}/destroy 503': 'destroy.503',
  'PUT /v1/desktops/{id}/files 503': 'files.503',
  'PUT /v1/desktops/{id}/files 504': 'files.504',
  'POST /v1/desktops/{id}/exec 503': 'exec.503',
  'POST /v1/desktops/{id}/stream 409': 'stream.409',
}

/** Method and path as the tables write them. */
const routeOf = (method: string, path: string): string =>
  `${method} ${path
    .split('?')[0]!
    .replace(/^(\/v1\/(?:desktops|operations)\/)[^/]+/, '$1{id}')
    .replace(/\/files\/.*/, '/files')}`

/** The titles of a file's tests, those of skipped ones not among them. */
const titlesIn = (source: string): string[] =>
  [
    ...source.matchAll(
      /(?:\btest(?:\.concurrent)?\(|\btest(?:\.concurrent)?\.each\([\s\S]*?\)\()\s*(['"`])((?:\\.|(?!\1)[^\\])*)\1/g,
    ),
  ].map(([, , title]) => title!)

test('no two rows have one id', () => {
  expect(rows.map(({ id }) => id).toSorted()).toEqual([...new Set(rows.map(({ id }) => id))].sort())
})

test('a wait that reaches its cap answers the operation as it is', async () => {
  await using hasty = await Stack.start({ controlPlane: { waitCapMs: 300 } })
  const { id } = await hasty.desktop('awake')
  const release = hasty.host.driver.faults.hang('save')
  const answer = await hasty.api('POST', `/v1/desktops/${id}/hibernate?wait=true`)
  expect([answer.status, answer.json.kind]).toEqual([200, 'hibernate'])
  expect(['pending', 'running']).toContain(answer.json.state)
  release()
  expect((await hasty.settled(answer.json.id)).state).toBe('succeeded')
})

test('the command prints a line per row and a summary, and fails where one row does', async () => {
  const { key } = await stack.otherOrg
  const main = (...more: string[]) => conformance('--url', stack.url, '--key', stack.org.key, ...more)
  const good = await main('--other-key', key, '--only', 'get.404', '--only', 'service.leader')
  expect(good.stdout).toContain('✓ get.404')
  expect(good.stdout).toContain('1 passed, 0 failed, 1 not checked here')
  expect(good.code).toBe(0)
  await using empty = await Stack.start({ hosts: 0 })
  const others = (await empty.otherOrg).key
  const words = ['--url', empty.url, '--key', empty.org.key, '--other-key', others, '--only', 'desktop.host_id']
  const bad = await conformance(...words, '--json')
  expect(JSON.parse(bad.stdout)).toMatchObject({ passed: 0, failed: 1, left: [], rows: [{ id: 'desktop.host_id' }] })
  expect(bad.code).toBe(1)
  // What the command made is gone; what the rows of this file made is still there.
  expect(good.stdout + bad.stdout).not.toContain(' is left')
})

test('the command says what it lacks, before it checks anything', async () => {
  const main = (...more: string[]) => conformance('--url', stack.url, '--key', stack.org.key, ...more)
  const lacking: [RegExp, Promise<{ code: number; stderr: string }>][] = [
    [/given together/, conformance('--url', stack.url)],
    [/it must be a URL/, conformance('--url', 'dormouse', '--key', 'k', '--other-key', 'k')],
    [/does not answer/, conformance('--url', 'http://127.0.0.1:1', '--key', 'k', '--other-key', 'k')],
    [/--other-key is not taken: 401/, main('--other-key', 'svc_sk_nobody')],
    [/belong to one organisation/, main('--other-key', stack.org.key)],
    [/No row is called "nothing"/, main('--other-key', stack.org.key, '--only', 'nothing')],
  ]
  for (const [sentence, said] of lacking)
    expect(await said).toMatchObject({ code: 2, stderr: expect.stringMatching(sentence) })
})

async function conformance(...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  try {
    return { code: 0, ...(await promisify(execFile)(process.execPath, [join(root, 'test/contract/main.ts'), ...args])) }
  } catch (error) {
    return error as { code: number; stdout: string; stderr: string }
  }
}
