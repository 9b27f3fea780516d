// Guarantee: a call says whether it may wake its desktop, and what only follows says after its first request that it may not.
import { expect, onTestFinished, test } from 'vitest'
import { createClient } from './client.ts'
import { Desktop } from './desktop.ts'
import { execScript } from './testing/exec-script.ts'
import { desktop, desktopId } from './testing/samples.ts'
import { type Script, serve } from './testing/scripted-server.ts'

async function start(script: Script, options: object = {}) {
  const server = await serve(script)
  onTestFinished(() => server[Symbol.asyncDispose]())
  const client = createClient({ baseUrl: server.baseUrl, apiKey: 'svc_sk_test', ...options })
  const found = () => Desktop.connect(desktopId, { client })
  const wishes = () => server.seen.map(({ headers }) => headers['dormouse-wake'])
  return { found, client, wishes, seen: server.seen }
}

const awake: Script = () => ({ body: desktop({ state: 'awake' }) })

test('a call’s own word goes before the client’s', async () => {
  const { client, wishes } = await start(awake, { wake: 'allow' })
  await client.getScreen(desktopId)
  await client.getScreen(desktopId, { wake: 'never' })
  const plain = await start(awake)
  await plain.client.getScreen(desktopId)
  expect([...wishes(), ...plain.wishes()]).toEqual(['allow', 'never', undefined])
})

test('a command wakes with its start alone', async () => {
  const { found, seen } = await start(execScript({ stdout: 'x' }))
  await (await found()).commands.run('true', { wake: 'allow' })
  const of = (method: string, end: RegExp) =>
    seen.filter((each) => each.method === method && end.test(each.path)).map(({ headers }) => headers['dormouse-wake'])
  expect(of('POST', /\/execs$/)).toEqual(['allow'])
  expect(new Set(of('DELETE', /./))).toEqual(new Set(['never']))
})

test('a watch wakes with its beginning alone, and its end never does', async () => {
  const pages = ['a', 'b', 'c'].map((cursor) => ({
    body: { changes: [{ type: 'written', path: `/${cursor}` }], cursor },
  }))
  const { client, wishes } = await start(({ method }) => (method === 'DELETE' ? { status: 204 } : pages.shift()!))
  for await (const { path } of client.watches.follow(desktopId, '/srv')) if (path === '/b') break
  expect(wishes()).toEqual([undefined, 'never', 'never'])
})

test('what wakes a desktop is set with it', async () => {
  const { client, seen } = await start(() => ({ body: desktop({ wake_on: ['exec'] }) }))
  const made = await Desktop.create({ client, wakeOn: ['exec'] })
  await made.change({ wakeOn: [] })
  expect([made.wakeOn, ...seen.map(({ body }) => JSON.parse(String(body)).wake_on)]).toEqual([['exec'], ['exec'], []])
})
