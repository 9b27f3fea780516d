// Guarantee: an exec is started with one key, its output is read on from its offset over every failure that may pass, and input
// goes on from what was taken.
import { expect, onTestFinished, test } from 'vitest'
import { Desktop } from './desktop.ts'
import { desktop, desktopId } from './testing/samples.ts'
import { problem, type Script, serve } from './testing/scripted-server.ts'

const execId = '01980f3e-7a5c-7c1e-9d54-1c2f5e6a7b81'
const execOf = (more: object = {}) => ({
  ...{ id: execId, desktop_id: desktopId, state: 'running', exit_code: null, signal: null, reason: null },
  ...{ stdin: { end: 0, open: true }, stdout: { start: 0, end: 0, dropped_bytes: 0 }, ended_at: null },
  ...more,
})
const output = (text: string, next: number, end = false) => ({
  headers: {
    'dormouse-next-offset': String(next),
    'dormouse-exec-state': end ? 'exited' : 'running',
    'dormouse-output-end': String(end),
  },
  body: text,
})

async function start(script: Script) {
  const server = await serve(script)
  onTestFinished(() => server[Symbol.asyncDispose]())
  const clock = { now: () => 0, random: () => 0, sleep: async () => undefined }
  return { server, found: await Desktop.connect(desktopId, { baseUrl: server.baseUrl, apiKey: 'svc_sk_test', clock }) }
}

test('the output continues at its offset after a cut, a sleep and a dropped part', async () => {
  const answers = [
    output('one ', 4),
    'reset',
    problem(409, 'guest_suspended', 'suspended'),
    problem(409, 'not_awake', 'asleep', { state: 'hibernated' }),
    output('three', 13, true),
  ]
  const { server, found } = await start(({ path }) => {
    if (path.endsWith('/output')) return answers.shift() as never
    return { body: path.endsWith(execId) ? execOf() : desktop({ state: 'awake' }) }
  })
  const exec = await found.commands.connect(execId)
  const pieces = await Array.fromAsync(exec.output())
  expect(pieces.map(({ bytes, offset }) => [new TextDecoder().decode(bytes), offset])).toEqual([
    ['one ', 0],
    ['three', 8],
  ])
  const offsets = server.seen.filter(({ path }) => path.endsWith('/output')).map(({ query }) => query.get('offset'))
  expect(offsets).toEqual(['0', '4', '4', '4', '4'])
})

test('a start is retried with one key, and its body is the API’s', async () => {
  const { server, found } = await start(({ method }, turn) => {
    if (method === 'GET') return { body: desktop({ state: 'awake' }) }
    return turn === 1 ? 'reset' : { status: 201, body: execOf() }
  })
  await found.commands.start('make', { cwd: '/srv', envs: { A: 'b' }, timeoutMs: 1_500, keepAwake: true })
  const [first, second] = server.seen.filter(({ method }) => method === 'POST')
  expect(first?.headers['idempotency-key']).toBe(second?.headers['idempotency-key'])
  expect(JSON.parse(String(second?.body))).toEqual({
    ...{ command: 'make', cwd: '/srv', env: { A: 'b' }, timeout_secs: 2, keep_awake: true },
  })
})

test('input goes on from what was taken', async () => {
  const { server, found } = await start(({ path, query }) => {
    if (path.endsWith('/stdin')) return { body: { next_offset: Math.min(6, Number(query.get('offset')) + 4) } }
    return { status: 200, body: path.endsWith('/execs') ? execOf() : desktop({ state: 'awake' }) }
  })
  const exec = await found.commands.start('cat', { stdin: true })
  await exec.sendStdin('abcdef', { eof: true })
  const sent = server.seen.filter(({ path }) => path.endsWith('/stdin'))
  expect(sent.map(({ query, body }) => [query.get('offset'), query.get('eof'), String(body)])).toEqual([
    ['0', 'true', 'abcdef'],
    ['4', 'true', 'ef'],
  ])
  expect(exec.state.stdin.end).toBe(6)
})

test('wait waits over what passes', async () => {
  const answers = [
    execOf(),
    problem(503, 'guest_unavailable', 'busy'),
    'reset',
    execOf({ state: 'exited', exit_code: 0 }),
  ]
  const { server, found } = await start(({ path }) => {
    if (path.endsWith('/output')) return output('more', 4)
    return path.endsWith(execId) ? (answers.shift() as never) : { body: desktop({ state: 'awake' }) }
  })
  const asBody = (answer: unknown) => (answer as { state?: string }).state !== undefined
  answers.forEach((answer, at) => {
    if (asBody(answer)) answers[at] = { body: answer } as never
  })
  expect(await (await found.commands.connect(execId)).wait()).toMatchObject({ exitCode: 0 })
  expect(server.seen.length).toBeGreaterThanOrEqual(5)
})

test('an exec that is lost is no success', async () => {
  const { found } = await start(({ path }) => ({
    body: path.endsWith(execId) ? execOf({ state: 'lost', reason: 'boot' }) : desktop({ state: 'awake' }),
  }))
  await expect((await found.commands.connect(execId)).wait()).rejects.toThrow('the exec is lost (boot)')
})
