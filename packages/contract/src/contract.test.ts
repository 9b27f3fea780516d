// Guarantee: the routes accept and refuse what the contract says.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import {
  argumentMaxBytes,
  commandMaxBytes,
  createDesktopBody,
  execBody,
  id,
  isId,
  messageOf,
  mutationBody,
  newId,
  Refusal,
  refusals,
  startExecBody,
  wakeBody,
} from './index.ts'

test('ids are UUIDv7 that sort by time; any case is accepted and lower case is the form', () => {
  expect(newId()).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
  expect(newId(1_000) < newId(2_000)).toBe(true)
  expect(id.parse(newId().toUpperCase())).toMatch(/^[0-9a-f-]+$/)
  fc.assert(fc.property(fc.string(), (text) => !isId(text)))
})

test('null means omitted for every optional field of create, and an empty billing mode is the default', () => {
  const nothing = { tier: 'small', billing_mode: null, image_version: null, idle_timeout_secs: null }
  expect(createDesktopBody.safeParse(nothing).success).toBe(true)
  expect(createDesktopBody.parse({ tier: 'small', billing_mode: '' }).billing_mode).toBeNull()
})

test.each([
  [{ tier: 'huge' }, 'tier'],
  [{}, 'tier'],
  [{ tier: 'small', billing_mode: 'daily' }, 'billing_mode'],
  [{ tier: 'small', idle_timeout_secs: -1 }, 'idle_timeout_secs'],
  [{ tier: 'small', idle_timeout_secs: 1.5 }, 'idle_timeout_secs'],
  [{ tier: 'small', idle_timeout_secs: 2 ** 53 }, 'idle_timeout_secs'],
  [{ tier: 'small', image_version: '' }, 'image_version'],
  [{ tier: 'small', image_version: 'a\u0007b' }, 'image_version'],
  [{ tier: 'small', image_version: 'x'.repeat(129) }, 'image_version'],
])('create refuses %j and names the field', (body, field) => {
  expect(createDesktopBody.safeParse(body).error?.issues[0]?.path[0]).toBe(field)
})

test('a misspelt field of a mutation is refused, and discard_memory is known to wake only', () => {
  expect(mutationBody.safeParse({ expected_generatoin: 1 }).success).toBe(false)
  expect(mutationBody.safeParse({ discard_memory: true }).success).toBe(false)
  expect(wakeBody.safeParse({ discard_memory: true, expected_generation: null }).success).toBe(true)
})

test('exec takes a string or a list of words, and no NUL', () => {
  expect(execBody.safeParse({ command: 'true' }).success).toBe(true)
  expect(execBody.safeParse({ command: ['true'] }).success).toBe(true)
  for (const command of ['', [], 'a\0b', ['a\0']]) expect(execBody.safeParse({ command }).success).toBe(false)
  expect(execBody.safeParse({ command: 'true', timeout_secs: 0 }).success).toBe(false)
  expect(execBody.safeParse({ command: 'true', timeout_secs: 100_000 }).success).toBe(true)
})

test('a million bad words or variables cost one message', () => {
  const command = Array(1_000_000).fill(0)
  const env = Object.fromEntries(Array.from({ length: 10_000 }, (_, i) => [`v${i}`, 0]))
  const bodies: [object, (string | number)[]][] = [
    [{ command }, ['command', 0]],
    [{ command: 'true', env }, ['env', 'v0']],
    [{ command: 'true', env: { 'a=b': '' } }, ['env', 'a=b']],
    [{ command: 'true', env: ['a'] }, ['env']],
  ]
  for (const [body, path] of bodies) {
    const issues = execBody.safeParse(body).error!.issues
    expect(issues.map((issue) => issue.path)).toEqual([path])
    expect(JSON.stringify(issues).length).toBeLessThan(1_000)
  }
})

test('a command is refused above what Linux takes as one argument, as one variable, and in all', () => {
  const most = 'é'.repeat(argumentMaxBytes / 2) + 'x'.repeat(argumentMaxBytes % 2)
  const many = (bytes: number) => Array.from({ length: Math.floor(commandMaxBytes / 109) }, () => 'x'.repeat(bytes))
  for (const body of [{ command: most }, { command: ['echo', most] }, { command: 'x', env: { A: most.slice(1) } }])
    for (const schema of [execBody, startExecBody]) expect(schema.safeParse(body).error).toBeUndefined()
  expect(execBody.safeParse({ command: many(100) }).success).toBe(true)
  for (const [body, path] of [
    [{ command: `${most}x` }, 'command'],
    [{ command: ['echo', `${most}x`] }, 'command.1'],
    [{ command: 'x', env: { A: most } }, 'env.A'],
    [{ command: 'x', env: { [most]: '' } }, `env.${most}`],
    [{ command: many(101) }, 'command'],
    [{ command: 'x', env: Object.fromEntries(many(90).map((text, at) => [`V${at + 1e6}`, `${text}xxx`])) }, 'command'],
    [{ command: 'x', cwd: '' }, 'cwd'],
  ] as const) {
    for (const schema of [execBody, startExecBody]) {
      const [issue, ...others] = schema.safeParse(body).error!.issues
      expect([issue!.path.join('.'), others]).toEqual([path, []])
      if (path !== 'cwd') expect(issue!.message).toMatch(/^must have at most [\d]+ bytes/)
    }
  }
})

test('every 503 and 429 says when to come again', () => {
  for (const [code, row] of Object.entries(refusals)) {
    if (row.status === 503 || row.status === 429) expect(row, code).toHaveProperty('retryAfterSecs')
  }
  expect(new Refusal('not_leader', 'no').status).toBe(503)
})

test('a code that only another release knows reads as an internal error', () => {
  expect(messageOf('of_tomorrow' as never, 'nothing was lost')).toMatch(/^internal error; nothing was lost; retry/)
})

test('every sentence of the table is lower case, says what happened first, and has no full stop', () => {
  for (const [code, { what, ...row }] of Object.entries(refusals)) {
    for (const part of [what, 'next' in row ? row.next : 'retry']) expect(part, code).toMatch(/^[a-z`].*[^.]$/)
  }
})
