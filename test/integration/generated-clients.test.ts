// Guarantee: clients that two generators make of the published document work as they are, for the life of a desktop.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Stack } from '../stack.ts'

let stack: Stack
let document: string
let folder: string

beforeAll(async () => {
  stack = await Stack.start()
  folder = mkdtempSync(join(import.meta.dirname, '../../.dormouse-generated-clients-'))
  document = join(folder, 'openapi.json')
  writeFileSync(document, (await stack.api('GET', '/v1/openapi.json', { key: null })).text)
})
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true })
  await stack[Symbol.asyncDispose]()
})

// biome-ignore lint/suspicious/noExplicitAny: the code does not exist before the test makes it.
type Generated = any

/** The module that a generator has written. */
async function made(name: string, code: string): Promise<Generated> {
  const file = join(folder, `${name}.ts`)
  writeFileSync(file, code)
  return import(file)
}

interface Answer {
  status: number
  data: Generated
}

/** The same calls, with the arguments in each generator's order. */
interface Calls {
  images(): Promise<Answer>
  create(body: object, key: string): Promise<Answer>
  get(id: string): Promise<Answer>
  wake(id: string): Promise<Answer>
  exec(id: string, body: object): Promise<Answer>
  changeIdle(id: string, body: object): Promise<Answer>
  list(state: string): Promise<Answer>
  operation(id: string): Promise<Answer>
  hibernate(id: string): Promise<Answer>
  usage(start: number): Promise<Answer>
  destroy(id: string): Promise<Answer>
}

async function live(calls: Calls): Promise<void> {
  const [image] = (await calls.images()).data.images
  const body = { tier: 'small', image: image.image_version, idle_timeout_secs: 0 }
  const created = await calls.create(body, crypto.randomUUID())
  expect([created.status, created.data.state]).toEqual([201, 'created'])
  const { id } = created.data
  const woken = await calls.wake(id)
  expect([woken.status, woken.data.state]).toEqual([200, 'succeeded'])
  expect((await calls.operation(woken.data.id)).data).toMatchObject({ desktop_id: id, kind: 'wake' })
  expect((await calls.exec(id, { command: 'echo hello' })).data).toMatchObject({ exit_code: 0, stdout: 'hello\n' })
  expect((await calls.changeIdle(id, { idle_timeout_secs: 900 })).data.idle_timeout_secs).toBe(900)
  expect((await calls.list('awake')).data.desktops.map((one: { id: string }) => one.id)).toEqual([id])
  expect((await calls.hibernate(id)).data.result.desktop_state).toBe('hibernated')
  expect((await calls.get(id)).data.state).toBe('hibernated')
  expect((await calls.usage(0)).data.desktops.map((one: { desktop_id: string }) => one.desktop_id)).toContain(id)
  expect((await calls.destroy(id)).data.state).toBe('succeeded')
}

test('one of oazapfts', async () => {
  const { generateSource } = await import('oazapfts')
  const api = await made('oazapfts', await generateSource(document))
  api.defaults.baseUrl = stack.url
  api.defaults.headers = { authorization: `Bearer ${stack.org.key}` }
  const wait = { wait: true }
  await live({
    images: () => api.listImages(),
    create: (body, idempotencyKey) => api.createDesktop(body, { idempotencyKey }),
    get: (id) => api.getDesktop(id),
    wake: (id) => api.wakeDesktop(id, {}, wait),
    exec: (id, body) => api.execInDesktop(id, body),
    changeIdle: (id, body) => api.changeDesktop(id, body),
    list: (state) => api.listDesktops({ state }),
    operation: (id) => api.getOperation(id, wait),
    hibernate: (id) => api.hibernateDesktop(id, undefined, wait),
    usage: (start) => api.getUsage({ start }),
    destroy: (id) => api.destroyDesktop(id, {}, wait),
  })
})

test('one of swagger-typescript-api', async () => {
  const { generateApi } = await import('swagger-typescript-api')
  const { files } = await generateApi({ input: document, output: false, httpClientType: 'fetch', silent: true })
  const { Api } = await made('swagger-typescript-api', files[0]!.fileContent)
  const securityWorker = () => ({ headers: { authorization: `Bearer ${stack.org.key}` } })
  const { v1 } = new Api({ baseUrl: stack.url, securityWorker })
  const wait = { wait: true }
  await live({
    images: () => v1.listImages(),
    create: (body, key) => v1.createDesktop(body, { headers: { 'Idempotency-Key': key } }),
    get: (id) => v1.getDesktop(id),
    wake: (id) => v1.wakeDesktop(id, wait, {}),
    exec: (id, body) => v1.execInDesktop(id, body),
    changeIdle: (id, body) => v1.changeDesktop(id, body),
    list: (state) => v1.listDesktops({ state }),
    operation: (id) => v1.getOperation(id, wait),
    hibernate: (id) => v1.hibernateDesktop(id, wait),
    usage: (start) => v1.getUsage({ start }),
    destroy: (id) => v1.destroyDesktop(id, wait, {}),
  })
})
