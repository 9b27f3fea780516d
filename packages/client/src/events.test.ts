// Guarantee: each event is yielded once over interruptions; what cannot pass by itself is thrown.
import { expect, onTestFinished, test } from 'vitest'
import { createClient } from './client.ts'
import { problem, type Script, serve } from './testing/scripted-server.ts'

async function start(script: Script) {
  const server = await serve(script)
  onTestFinished(() => server[Symbol.asyncDispose]())
  const slept: number[] = []
  const clock = { now: () => Date.now(), random: () => 1, sleep: async (ms: number) => void slept.push(ms) }
  return { client: createClient({ baseUrl: server.baseUrl, apiKey: 'svc_sk_test', clock }), slept, seen: server.seen }
}

const event = (id: string) =>
  `id: ${id}\ndata: ${JSON.stringify({ id, type: 'desktop.state', data: { note: 'a: b' } })}\n\n`
const gone = problem(410, 'cursor_gone', 'too old', { oldest_cursor: 'o' })

test('it goes on from the last cursor after an interruption, a refusal that may pass, and the end of a stream', async () => {
  const answers = [
    { body: `retry: 1000\nid: a\n\n${event('b')}: \nid: c\n\nid: d\ndata: {"id":` },
    problem(503, 'stopping', 'wait'),
    problem(500, 'internal', 'a fault'),
    { body: `${event('d')}event: end\ndata: {"reason":"stopping"}\n\n` },
    gone,
  ]
  const { client, seen, slept } = await start((_, turn) => answers[turn]!)
  const [ids, cursors]: [string[], string[]] = [[], []]
  const following = (async () => {
    const filter = { after: '0', desktopId: 'x', types: ['desktop.state', 'key.created'] } as const
    for await (const { id, data } of client.events({ ...filter, onCursor: (cursor) => void cursors.push(cursor) }))
      if (data.note === 'a: b') ids.push(id)
  })()
  await expect(following).rejects.toMatchObject({ code: 'cursor_gone', problem: { oldest_cursor: 'o' } })
  expect([ids, cursors]).toEqual([
    ['b', 'd'],
    ['a', 'b', 'c', 'd'],
  ])
  expect(seen.map(({ query }) => query.get('after'))).toEqual(['0', 'c', 'c', 'c', 'd'])
  expect(seen[0]!.query.getAll('type')).toEqual(['desktop.state', 'key.created'])
  expect(seen[0]!.headers.accept).toBe('text/event-stream')
  expect(slept).toEqual([100, 200, 400, 100])
})

test('the loop may be left, and ends without an error when its signal is aborted', async () => {
  const { client } = await start(() => ({ body: `${event('b')}${event('c')}` }))
  for await (const { id } of client.events()) if (id === 'c') break
  const stop = new AbortController()
  const ids: string[] = []
  for await (const { id } of client.events({ signal: stop.signal })) {
    ids.push(id)
    stop.abort()
  }
  expect(ids[0]).toBe('b')
})
