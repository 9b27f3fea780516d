// Guarantee: a watch reports what changes in a folder, over lost connections and sleeps, and says if something may be missing.
import { Desktop } from '@dormouse/client'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'

let stack: Stack
let id: string

beforeAll(async () => {
  stack = await Stack.start()
  id = (await stack.desktop('awake')).id
  await stack.exec(id, 'mkdir -p /srv/in/deeper')
  await write('/srv/in/first')
})
afterAll(() => stack[Symbol.asyncDispose]())

const write = (path: string, body = 'x') => stack.exec(id, `printf ${body} >${path}`)
const routeOf = (query: Record<string, string> = {}) =>
  `/v1/desktops/${id}/watch?${new URLSearchParams({ path: '/srv/in', ...query })}`
const read = (query: Record<string, string> = {}) => stack.api('GET', routeOf(query))

async function begin(query: Record<string, string> = {}): Promise<string> {
  const { status, json, headers } = await read(query)
  expect([status, json.changes, headers['cache-control']]).toEqual([200, [], 'no-store'])
  return json.cursor
}

const inShort = (changes: { type: string; path: string | null }[]) => changes.map(({ type, path }) => `${type} ${path}`)

test('changes come in their order behind a cursor, and a request waits for one', async () => {
  let cursor = await begin()
  await write('/srv/in/a')
  await write('/srv/in/deeper/b')
  const first = (await read({ cursor })).json
  expect(inShort(first.changes)).toEqual(['created /srv/in/a', 'modified /srv/in/a', 'written /srv/in/a'])
  expect((await read({ cursor })).json).toEqual(first)
  cursor = first.cursor
  const waiting = read({ cursor, wait_secs: '30' })
  await write('/srv/in/first', 'other')
  expect(inShort((await waiting).json.changes)).toContain('modified /srv/in/first')
  expect((await stack.api('DELETE', routeOf({ cursor }))).status).toBe(204)
  const again = (await read({ cursor })).json
  expect([inShort(again.changes), again.cursor === cursor]).toEqual([['overflow null'], false])
})

test('a sleep and an agent’s death lose nothing, and a boot says that something may be missing', async () => {
  const desktop = await Desktop.connect(id, { baseUrl: stack.url, apiKey: stack.org.key })
  const left = new AbortController()
  const seen: string[] = []
  const cursors: string[] = []
  const following = (async () => {
    const options = { recursive: true, signal: left.signal, onCursor: (cursor: string) => void cursors.push(cursor) }
    for await (const { type, path } of desktop.files.watch('/srv', options)) seen.push(`${type} ${path}`)
  })()
  await waitFor('the watch', () => cursors.length > 0)
  await write('/srv/in/deeper/c')
  await waitFor('a change below', () => seen.includes('written /srv/in/deeper/c'))
  await stack.ask(id, 'hibernate')
  expect((await read({ path: '/srv', recursive: 'true', cursor: cursors.at(-1)! })).json.code).toBe('not_awake')
  await stack.ask(id, 'wake')
  await write('/srv/in/after-sleep')
  await waitFor('a change after the sleep', () => seen.includes('written /srv/in/after-sleep'))
  await stack.killAgent()
  await stack.restartAgent()
  await write('/srv/in/after-death')
  await waitFor('a change after the agent’s death', () => seen.includes('written /srv/in/after-death'))
  expect(seen).not.toContain('overflow null')
  await stack.ask(id, 'hibernate')
  await stack.ask(id, 'wake', { discard_memory: true })
  await waitFor('the overflow', () => seen.includes('overflow null'))
  await write('/srv/in/after-boot')
  await waitFor('a change after the boot', () => seen.includes('written /srv/in/after-boot'))
  left.abort()
  await following
})

test('a stream has each change, goes on behind its last cursor, and ends with the reason', async () => {
  const open = async (headers: Record<string, string> = {}) => {
    const response = await fetch(stack.url + routeOf(), {
      headers: { accept: 'text/event-stream', authorization: `Bearer ${stack.org.key}`, ...headers },
    })
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader()
    let text = ''
    const until = async (part: string) => {
      while (!text.includes(part)) {
        const { value, done } = await reader.read()
        if (done) break
        text += value
      }
      return text
    }
    return { response, until, close: () => reader.cancel() }
  }
  const stream = await open()
  expect(stream.response.headers.get('x-accel-buffering')).toBe('no')
  const cursor = /^id: (.+)$/m.exec(await stream.until('\n\n'))![1]!
  await write('/srv/in/streamed')
  expect(await stream.until('written')).toContain('"path":"/srv/in/streamed"')
  await stream.close()
  const next = await open({ 'last-event-id': cursor })
  expect(await next.until('written')).toContain('"type":"created","path":"/srv/in/streamed"')
  await stack.ask(id, 'hibernate')
  expect(await next.until('event: end')).toContain('event: end\ndata: {"reason":"not_awake"}')
  await stack.ask(id, 'wake')
})

test('what cannot be watched is refused with its field or code', async () => {
  const cursor = await begin()
  for (const [query, field] of [
    [{ path: 'srv' }, 'path'],
    [{ path: '/srv/../etc' }, 'path'],
    [{ recursive: 'yes' }, 'recursive'],
    [{ wait_secs: '61' }, 'wait_secs'],
    [{ cursor: 'x' }, 'cursor'],
    [{ cursor, recursive: 'true' }, 'cursor'],
    [{ cursor, path: '/srv' }, 'cursor'],
  ] as const) {
    const answer = await read({ ...query } as Record<string, string>)
    expect([query, answer.status, answer.json.field]).toEqual([query, 400, field])
  }
  expect((await read({ path: '/srv/none' })).json.code).toBe('file_not_found')
  expect((await stack.api('GET', `/v1/desktops/${id}/execs`)).json.execs).toEqual([])
})
