import { expect, onTestFinished, test } from 'vitest'
import { createClient } from './client.ts'
import { desktopId } from './testing/samples.ts'
import { problem, type Script, serve } from './testing/scripted-server.ts'

const clock = { now: () => 0, random: () => 0, sleep: async () => undefined }
const change = (path: string) => ({ type: 'written', path, exact_path: true, folder: false, to: null })

async function start(script: Script) {
  const server = await serve(script)
  onTestFinished(() => server[Symbol.asyncDispose]())
  return { client: createClient({ baseUrl: server.baseUrl, apiKey: 'svc_sk_test', clock }), seen: server.seen }
}

test('a watch goes on behind its cursor after what passes, and ends in the guest when it is left', async () => {
  const pages = [
    { body: { changes: [], cursor: 'one' } },
    { body: { changes: [change('/a'), change('/b')], cursor: 'two' } },
    problem(409, 'not_awake', 'the desktop is hibernated', { state: 'hibernated' }),
    problem(503, 'guest_unavailable', 'away'),
    { body: { changes: [change('/c')], cursor: 'three' } },
  ]
  const { client, seen } = await start(({ method }) => (method === 'DELETE' ? { status: 204 } : pages.shift()!))
  const paths: (string | null)[] = []
  for await (const { path } of client.watches.follow(desktopId, '/srv', { recursive: true })) {
    paths.push(path)
    if (path === '/c') break
  }
  expect(paths).toEqual(['/a', '/b', '/c'])
  expect(seen.map(({ method, query }) => [method, query.get('recursive'), query.get('cursor')])).toEqual([
    ['GET', 'true', null],
    ['GET', 'true', 'one'],
    ['GET', 'true', 'two'],
    ['GET', 'true', 'two'],
    ['GET', 'true', 'two'],
    ['DELETE', 'true', 'two'],
  ])
})

test('a folder that is not there is an error', async () => {
  const { client, seen } = await start(() => problem(404, 'file_not_found', 'there is no such folder in the guest'))
  const following = Array.fromAsync(client.watches.follow(desktopId, '/none'))
  await expect(following).rejects.toMatchObject({ code: 'file_not_found' })
  expect(seen).toHaveLength(1)
})
