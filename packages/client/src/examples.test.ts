// Guarantee: the loops of docs/agents.md are the programs in examples/, and they run: against a model that looks once, clicks, and is done.
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { desktop, desktopId, operation, succeeded } from './testing/samples.ts'
import { type Script, serve } from './testing/scripted-server.ts'

const root = join(import.meta.dirname, '../../..')
const pinnedNode = join(root, 'node_modules/.bin/node')
const textOf = (path: string): string => readFileSync(join(root, path), 'utf8')

test('the page shows the programs as they are', () => {
  const blocks = [...textOf('docs/agents.md').matchAll(/```ts\n(.*?)```/gs)].map(([, code]) => code)
  expect(blocks).toEqual([textOf('examples/anthropic.ts'), textOf('examples/openai.ts')])
})

const picture = { mime_type: 'image/png', data: 'aGVsbG8=' }
const done = {
  ...{ outcome: 'done', performed: 1, reason: null, screen: null, pointer: null },
  ...{ settled: true, changed: true, settle_ms: 1, screenshot: picture },
}

const script: Script = ({ method, path, query }) => {
  if (path.endsWith('/input')) return { body: done }
  if (path === '/v1/desktops') return { status: 201, body: desktop() }
  if (method === 'GET') return { body: desktop({ state: 'awake' }) }
  return query.has('wait') ? { body: succeeded() } : { status: 202, body: operation() }
}

/** Returns one after the other, and repeats the last one. */
const inTurn = (answers: object[]): Script => {
  let turn = 0
  return () => ({ body: answers[Math.min(turn++, answers.length - 1)]! })
}

const anthropic = inTurn([
  { content: [{ type: 'tool_use', id: 'one', input: { action: 'screenshot' } }] },
  { content: [{ type: 'tool_use', id: 'two', input: { action: 'left_click', coordinate: [3, 4] } }] },
  { content: [{ type: 'tool_use', id: 'three', input: { action: 'fly' } }] },
  { content: [{ type: 'text', text: 'It is done.' }] },
])

const openai = inTurn([
  { id: 'r1', output: [{ type: 'computer_call', call_id: 'one', actions: [{ type: 'screenshot' }] }] },
  { id: 'r2', output: [{ type: 'computer_call', call_id: 'two', actions: [{ type: 'click', x: 3, y: 4 }] }] },
  { id: 'r3', output: [{ type: 'message', content: [{ text: 'It is done.' }] }] },
])

test.each([
  ['anthropic', anthropic, 'ANTHROPIC_BASE_URL', 4],
  ['openai', openai, 'OPENAI_BASE_URL', 3],
] as const)(
  'the loop with a model of %s’s shows it what its actions did, until it is done',
  async (name, answers, url, asked) => {
    await using model = await serve(answers)
    await using service = await serve(script)
    const env = { DORMOUSE_URL: service.baseUrl, DORMOUSE_API_KEY: 'svc_sk_x', [url]: model.baseUrl }
    const { stdout, stderr } = await promisify(execFile)(pinnedNode, [join(root, `examples/${name}.ts`), 'Do it.'], {
      env,
    })
    expect({ stdout, stderr }).toEqual({ stdout: 'It is done.\n', stderr: '' })
    const inputs = service.seen.filter(({ path }) => path === `/v1/desktops/${desktopId}/input`)
    const bodies = inputs.map(({ body }) => JSON.parse(String(body)))
    expect(bodies.map(({ actions }) => actions[0].type)).toEqual(['screenshot', 'click'])
    expect(bodies[1]).toMatchObject({ actions: [{ x: 3, y: 4 }], settle: {}, screenshot: { fit: 1280 } })
    expect(model.seen.length).toBe(asked)
    expect(String(model.seen[2]?.body)).toContain(picture.data)
  },
)
