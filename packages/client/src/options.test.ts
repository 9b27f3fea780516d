// Guarantee: no method of the SDK ignores an option that it does not know.
import { expect, onTestFinished, test } from 'vitest'
import { createAdminClient } from './admin.ts'
import { createClient } from './client.ts'
import { Desktop } from './desktop.ts'
import { InvalidRequestError } from './errors.ts'
import { desktop, desktopId } from './testing/samples.ts'
import { serve } from './testing/scripted-server.ts'

/** As a program in JavaScript calls: no compiler has looked at it. */
// biome-ignore lint/suspicious/noExplicitAny: see above.
type Unchecked = any

const at = { baseUrl: 'http://127.0.0.1:1', apiKey: 'svc_sk_test', retries: 0 }
const wrong = { bogus: 1 }

async function awake() {
  const server = await serve(() => ({ body: desktop({ state: 'awake' }) }))
  onTestFinished(() => server[Symbol.asyncDispose]())
  const made = await Desktop.connect(desktopId, { ...at, baseUrl: server.baseUrl })
  return { made: made as Unchecked, seen: server.seen }
}

test.each<[object, string]>([
  [{ bogus: 'x' }, 'Desktop.create has no option "bogus"; its options are'],
  [{ teir: 'small' }, 'Desktop.create has no option "teir"; did you mean "tier"?'],
  [{ image_version: 'a' }, 'no option "image_version"; did you mean "imageVersion"'],
  [{ idleTimeoutSec: 60 }, 'did you mean "idleTimeoutSecs"'],
  [{ apikey: 'k' }, 'did you mean "apiKey"'],
])('Desktop.create(%j) is refused', async (given, message) => {
  const made = Desktop.create({ ...at, ...given } as Unchecked)
  await expect(made).rejects.toThrow(InvalidRequestError)
  await expect(made).rejects.toThrow(message)
})

test('clients, and what finds desktops', async () => {
  for (const make of [createClient, createAdminClient] as Unchecked[])
    expect(() => make({ ...at, operatorKey: 'k', url: 'http://x' })).toThrow('has no option')
  await expect(Desktop.connect(desktopId, { ...at, ...wrong } as Unchecked)).rejects.toThrow('"bogus"')
  await expect(Desktop.list({ ...at, states: 'awake' } as Unchecked).next()).rejects.toThrow('did you mean "state"')
})

test('what follows, and what joins', async () => {
  const client = createClient(at) as Unchecked
  await expect(client.events({ type: [] }).next()).rejects.toThrow('did you mean "types"?')
  await expect(client.watches.follow(desktopId, '/a', wrong).next()).rejects.toThrow('"bogus"')
  expect(() => client.execs.follow(desktopId, desktopId, wrong)).toThrow('"bogus"')
  expect(() => client.execs.attach({}, wrong)).toThrow('"bogus"')
  await expect(client.settle('wake', desktopId, {}, wrong)).rejects.toThrow('"bogus"')
  await expect(client.waitForOperation(desktopId, wrong)).rejects.toThrow('"bogus"')
})

test.each<[string, (made: Unchecked) => Promise<unknown>]>([
  ['wake', (made) => made.wake(wrong)],
  ['hibernate', (made) => made.hibernate({ discardMemory: true })],
  ['destroy', (made) => made.destroy(wrong)],
  ['refresh', (made) => made.refresh(wrong)],
  ['idle', (made) => made.idle(wrong)],
  ['change', (made) => made.change({ idleTimeoutSecs: 1, ...wrong })],
  ['lock', (made) => made.lock('a', { reason: 'b', forMs: 1, ...wrong })],
  ['unlock', (made) => made.unlock('a', wrong)],
  ['input', (made) => made.input([], wrong)],
  ['leftClick', (made) => made.leftClick(1, 2, wrong)],
  ['write', (made) => made.write('a', wrong)],
  ['screenshot', (made) => made.screenshot(wrong)],
  ['takeScreenshot', (made) => made.takeScreenshot(wrong)],
  ['screen', (made) => made.screen(wrong)],
  ['launch', (made) => made.launch('xterm', wrong)],
  ['commands.run', (made) => made.commands.run('true', wrong)],
  ['commands.run, streamed', (made) => made.commands.run('true', { onStdout: () => undefined, ...wrong })],
  ['commands.start', (made) => made.commands.start('true', wrong)],
  ['commands.connect', (made) => made.commands.connect(desktopId, wrong)],
  ['commands.list', (made) => made.commands.list(wrong)],
  ['files.write', (made) => made.files.write('/a', 'b', wrong)],
  ['files.upload', (made) => made.files.upload('/a', 'b', wrong)],
  ['files.read', (made) => made.files.read('/a', wrong)],
  ['files.readPart', (made) => made.files.readPart('/a', { offset: 0, ...wrong })],
  ['files.list', (made) => made.files.list('/a', wrong).next()],
  ['files.stat', (made) => made.files.stat('/a', wrong)],
  ['files.url', (made) => made.files.url('/a', wrong)],
  ['files.urls', (made) => made.files.urls(wrong)],
  ['files.revokeUrl', (made) => made.files.revokeUrl(desktopId, wrong)],
  ['files.watch', (made) => made.files.watch('/a', wrong).next()],
  ['files.mkdir', (made) => made.files.mkdir('/a', wrong)],
  ['files.move', (made) => made.files.move('/a', '/b', wrong)],
  ['files.copy', (made) => made.files.copy('/a', '/b', wrong)],
  ['files.remove', (made) => made.files.remove('/a', wrong)],
  ['files.chmod', (made) => made.files.chmod('/a', '0644', wrong)],
  ['clipboard.read', (made) => made.clipboard.read(wrong)],
  ['clipboard.write', (made) => made.clipboard.write('a', wrong)],
  ['stream.getUrl', (made) => made.stream.getUrl(wrong)],
])('%s sends nothing', async (_name, call) => {
  const { made, seen } = await awake()
  await expect(call(made)).rejects.toThrow(/no option "(bogus|discardMemory)"/)
  expect(seen).toHaveLength(1)
})

test('what is like an option of the method is suggested', async () => {
  const { made } = await awake()
  await expect(made.files.write('/a', 'b', { mod: '0644' })).rejects.toThrow('did you mean "mode"?')
  await expect(made.wake({ discard_memory: true })).rejects.toThrow('did you mean "discardMemory"?')
  await expect(made.commands.run('true', { env: {} })).rejects.toThrow('did you mean "envs"?')
  await expect(made.commands.run('true', { timeout: 1 })).rejects.toThrow('did you mean "timeoutMs"?')
})

test.each<[string, (made: Unchecked) => Promise<unknown>, string]>([
  ['no data', (made) => made.files.write('/a', undefined), 'must be text, bytes, a Blob or a stream, not undefined'],
  ['null', (made) => made.files.write('/a', null), 'not null'],
  ['an object', (made) => made.files.write('/a', { a: 1 }), 'not object'],
  ['a number', (made) => made.files.upload('/a', 5), 'not number'],
  ['a mode as a number', (made) => made.files.write('/a', 'x', { mode: 0o644 }), "octal text, such as '0644'"],
  ['the same of an upload', (made) => made.files.upload('/a', 'x', { mode: 0o644 }), 'the number 420'],
  ['the same of chmod', (made) => made.files.chmod('/a', 0o755), 'octal text'],
  ['the same of a folder', async (made) => made.files.mkdir('/a', { mode: 0o755 }), 'octal text'],
  [
    'another format',
    async (made) => made.files.read('/a', { format: 'json' }),
    'format must be text, bytes, blob, stream',
  ],
  ['no number', (made) => made.commands.run('x', { timeoutMs: Number.NaN }), 'timeoutMs must be a number'],
  ['no end', (made) => made.commands.start('x', { timeoutMs: Infinity }), 'not Infinity'],
  ['text', (made) => made.commands.run('x', { timeoutMs: '1000' }), 'above 0, not 1000'],
  ['the past', (made) => made.files.url('/a', { expiresMs: -1 }), 'expiresMs must be'],
  ['a reason', (made) => made.lock('a', { reason: 'b', forMs: '1h' }), 'forMs must be'],
  ['half of a character', async (made) => made.files.read('/\ud800'), 'half of a surrogate pair'],
  ['the same in a query', (made) => made.files.stat('/\ud800'), 'half of a surrogate pair'],
  ['options that are none', (made) => made.wake('now'), 'the options of wake must be an object, not "now"'],
  ['null for options', (made) => made.commands.run('x', null), 'the options of run must be an object, not null'],
])('a value that would mean something else is refused before a request: %s', async (_, call, message) => {
  const { made, seen } = await awake()
  const before = seen.length
  const done = (async () => call(made))()
  await expect(done).rejects.toThrow(InvalidRequestError)
  await expect(done).rejects.toThrow(message)
  expect(seen.length).toBe(before)
})

test('without options, what is missing is named', async () => {
  for (const make of [createClient, createAdminClient] as Unchecked[])
    expect(() => make()).toThrow('baseUrl is missing')
  await expect(Desktop.create(null as Unchecked)).rejects.toThrow(
    'the options of Desktop.create must be an object, not null',
  )
})
