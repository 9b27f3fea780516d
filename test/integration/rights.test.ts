// Guarantee: each customers' route needs the right that this table names, before anything is looked up, and no other right; a
// desktop that a credential does not reach is the one 404 on each of them.
import { newId, type Right, rights } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { Stack } from '../stack.ts'
import type { ApiAnswer, ApiWish } from './parts/api.ts'

interface Described {
  paths: Record<
    string,
    Record<
      string,
      {
        operationId: string
        description?: string
        parameters?: { name: string; in: string; required?: boolean }[]
        requestBody?: { content: Record<string, { example?: object }> }
      }
    >
  >
}

/** The right of each operation, or of each of these bodies. Null: any valid credential will do, or none at all. */
const needs: Record<string, Right | null | [Right, object][]> = {
  getOpenApi: null,
  forkDesktop: null,
  listDesktops: 'see',
  getDesktop: 'see',
  listOperations: 'see',
  getOperation: 'see',
  listImages: 'see',
  listTiers: 'see',
  getIdle: 'see',
  getMetrics: 'see',
  listCopies: 'see',
  restoreCopy: 'destroy',
  listCopyPolicies: 'admin',
  putCopyPolicy: 'admin',
  removeCopyPolicy: 'admin',
  getUsage: 'see',
  listQuotas: 'see',
  listEvents: 'see',
  getBulk: 'see',
  createDesktop: 'create',
  wakeDesktop: 'power',
  hibernateDesktop: 'power',
  destroyDesktop: 'destroy',
  putWakeLock: 'power',
  deleteWakeLock: 'power',
  changeDesktop: [
    ['power', { idle_timeout_secs: 60 }],
    ['power', { idle_policy: ['input'] }],
    ['power', { schedule: null }],
    ['power', { wake_on: ['exec'] }],
    ['destroy', { destroy_after_secs: 60 }],
    ['admin', { name: 'a' }],
    ['admin', { tier: 'small' }],
    ['admin', { disk_gib: 100 }],
    ['admin', { labels: { a: 'b' } }],
    ['see', {}],
  ],
  createBulk: [
    ['power', { action: 'wake', ids: [newId()] }],
    ['power', { action: 'hibernate', ids: [newId()], dry_run: true }],
    ['destroy', { action: 'destroy', select: 'a' }],
    ['admin', { action: 'label', select: 'a', labels: { a: 'b' } }],
  ],
  cancelBulk: [['power', {}]],
  execInDesktop: 'use',
  startExec: 'use',
  listExecs: 'use',
  getExec: 'use',
  deleteExec: 'use',
  readExecOutput: 'use',
  writeExecInput: 'use',
  signalExec: 'use',
  resizeExec: 'use',
  attachExec: 'use',
  openStream: 'use',
  listEntries: 'use',
  changeEntry: 'use',
  readFile: 'use',
  writeFile: 'use',
  readArchive: 'use',
  writeArchive: 'use',
  createUpload: 'use',
  getUpload: 'use',
  appendToUpload: 'use',
  deleteUpload: 'use',
  watchFolder: 'use',
  endWatch: 'use',
  createFileUrl: 'use',
  listFileUrls: 'use',
  revokeFileUrl: 'use',
  takeScreenshot: 'use',
  getScreen: 'use',
  readClipboard: 'use',
  writeClipboard: 'use',
  sendInput: 'use',
  createKey: 'admin',
  listKeys: 'admin',
  revokeKey: 'admin',
  createWebhook: 'admin',
  listWebhooks: 'admin',
  getWebhook: 'admin',
  changeWebhook: 'admin',
  deleteWebhook: 'admin',
  rotateWebhookSecret: 'admin',
  testWebhook: 'admin',
  listWebhookDeliveries: 'admin',
  getWebhookDelivery: 'admin',
  redeliverWebhookDelivery: 'admin',
  redeliverWebhookDeliveries: 'admin',
}

/** What a request needs beside the example of its body. */
const more: Record<string, { query?: string; wish?: ApiWish }> = {
  listEvents: { query: 'limit=1' },
  createKey: { wish: { body: { name: 'x', can: ['admin'] } } },
  createDesktop: { wish: { body: { tier: 'small' } } },
  appendToUpload: { wish: { body: 'x', headers: { 'upload-offset': '0', 'upload-complete': '?1' } } },
  listEntries: { query: 'path=/srv' },
  watchFolder: { query: 'path=/srv' },
  endWatch: { query: `path=/srv&cursor=${newId()}.0.LPMUzhXx` },
  createUpload: { query: 'path=/srv/x' },
  writeExecInput: { query: 'offset=0', wish: { body: 'x' } },
}

interface Request {
  operationId: string
  method: string
  path: (id: string) => string
  wish: ApiWish
  right: Right | null
}

async function requestsOf(stack: Stack): Promise<Request[]> {
  const { json } = await stack.api('GET', '/v1/openapi.json', { key: null })
  const found = Object.entries((json as Described).paths).flatMap(([template, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ template, method: method.toUpperCase(), operation })),
  )
  expect(found.map(({ operation }) => operation.operationId).toSorted()).toEqual(Object.keys(needs).toSorted())
  return found.flatMap(({ template, method, operation }): Request[] => {
    const { operationId, requestBody } = operation
    const { query = '', wish = {} } = more[operationId] ?? {}
    const path = (id: string) =>
      `${template
        .replace('{path}', 'srv/x')
        .replace('{name}', 'one')
        .replace(/\{\w+\}/g, id)}?${query}`
    const needed = needs[operationId]!
    const example = requestBody?.content['application/json']?.example
    const body = example ?? (requestBody ? 'x' : undefined)
    const shared = { operationId, method, path }
    if (Array.isArray(needed))
      return needed.map(([right, own]) => ({ ...shared, right, wish: requestBody ? { body: own } : {} }))
    return [{ ...shared, right: needed, wish: { ...(body !== undefined && { body }), ...wish } }]
  })
}

const keyOf = async (stack: Stack, wish: object): Promise<string> =>
  (await stack.api('POST', '/v1/keys', { body: { name: 'test', ...wish } })).json.api_key

test('each route needs the right that the table names, says so, and needs no other', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  const requests = await requestsOf(stack)
  const [only, without] = [new Map<Right, string>(), new Map<Right, string>()]
  for (const right of rights) {
    only.set(right, await keyOf(stack, { can: [right] }))
    without.set(right, await keyOf(stack, { can: rights.filter((other) => other !== right) }))
  }
  for (const { operationId, method, path, wish, right } of requests) {
    const url = path(newId())
    if (right === null) {
      for (const key of only.values())
        expect([url, (await stack.api(method, url, { ...wish, key })).status]).not.toEqual([url, 403])
      continue
    }
    // A plan that does not exist may have had another action.
    const lacking = operationId === 'cancelBulk' ? only.get('see')! : without.get(right)!
    const refused = await stack.api(method, url, { ...wish, key: lacking })
    expect([operationId, refused.status, refused.json?.code, refused.json?.right]).toEqual([
      operationId,
      403,
      'not_allowed',
      right,
    ])
    expect(refused.json.detail).toContain(`\`${right}\``)
    const answer = await stack.api(method, url, { ...wish, key: only.get(right)! })
    expect([operationId, answer.status]).not.toEqual([operationId, 403])
    expect([operationId, answer.status]).not.toEqual([operationId, 401])
    // Its syntax was good, or the test would prove nothing.
    expect([operationId, answer.status, answer.text]).not.toEqual([operationId, 400, expect.anything()])
  }
})

/** An answer without what may differ between any two. */
function sameness({ status, headers, text }: ApiAnswer) {
  const { date: _date, 'x-request-id': _id, ...rest } = headers
  return { status, headers: rest, text }
}

test('a desktop that a key does not reach is byte for byte a missing one, on each route that names a desktop', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake', { labels: { team: 'dev' } })
  const own = await stack.desktop('created', { labels: { team: 'qa' } })
  const everything = { can: [...rights] }
  const keys = [
    await keyOf(stack, { ...everything, select: 'team=qa' }),
    await keyOf(stack, { ...everything, desktop_id: own.id }),
  ]
  const ofDesktops = (await requestsOf(stack)).filter(
    ({ path, right }) => right !== null && /\/desktops\/z/.test(path('z')),
  )
  expect(ofDesktops.length).toBeGreaterThan(30)
  for (const key of keys)
    for (const { method, path, wish } of ofDesktops) {
      const hidden = await stack.api(method, path(id), { ...wish, key })
      expect([method, path(id), hidden.status]).toEqual([method, path(id), 404])
      expect(sameness(hidden), path(id)).toEqual(sameness(await stack.api(method, path(newId()), { ...wish, key })))
    }
  for (const key of keys) {
    expect((await stack.api('GET', `/v1/desktops/${own.id}`, { key })).status).toBe(200)
    const { operations } = (await stack.api('GET', `/v1/desktops/${id}/operations`)).json
    const path = (operation: string) => `/v1/operations/${operation}`
    const hidden = await stack.api('GET', path(operations[0].id), { key })
    expect(sameness(hidden)).toEqual(sameness(await stack.api('GET', path(newId()), { key })))
  }
})
