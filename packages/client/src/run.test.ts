// Guarantee: a command that is run to its end streams, keeps the beginning and the end of what it prints, and leaves nothing.
import { expect, onTestFinished, test } from 'vitest'
import { Desktop } from './desktop.ts'
import { KeptText } from './kept-text.ts'
import { execScript, inputOf, startedWith, wasRemoved } from './testing/exec-script.ts'
import { desktop, desktopId } from './testing/samples.ts'
import { problem, type Script, serve } from './testing/scripted-server.ts'

async function start(script: Script) {
  const server = await serve(script)
  onTestFinished(() => server[Symbol.asyncDispose]())
  const clock = { now: () => 0, random: () => 0, sleep: async () => undefined }
  const found = await Desktop.connect(desktopId, { baseUrl: server.baseUrl, apiKey: 'svc_sk_test', clock })
  return { ...found, found, seen: server.seen }
}

test('a command’s result is a result whatever its exit code, its time is in whole seconds, and it is removed', async () => {
  const { found, seen } = await start(execScript({ exit_code: 3, stdout: 'out', stderr: 'err' }))
  const heard: string[] = []
  const ran = await found.commands.run('exit 3', {
    ...{ cwd: '/tmp', envs: { A_B: '1' }, stdin: 'x', timeoutMs: 1500 },
    onStdout: (text) => heard.push(text),
    onStderr: (text) => heard.push(text),
  })
  expect(ran).toMatchObject({ exitCode: 3, signal: null, stdout: 'out', stderr: 'err', stdoutTruncated: false })
  expect(heard.sort()).toEqual(['err', 'out'])
  const body = { command: 'exit 3', cwd: '/tmp', env: { A_B: '1' }, stdin: 'x', timeout_secs: 2, wait_for_reader: true }
  expect(startedWith(seen)).toEqual(body)
  expect(wasRemoved(seen)).toBe(true)
})

test('output that the guest dropped is told', async () => {
  const { found } = await start(execScript({ stdout: 'the end', dropped: 9 }))
  const ran = await found.commands.run('yes')
  expect(ran).toMatchObject({ stdout: '\n… 9 characters left out …\nthe end', stdoutTruncated: true, exitCode: 0 })
  expect(ran.droppedBytes).toEqual({ stdout: 9, stderr: 0 })
})

test('a long input is sent in pieces, whole', async () => {
  const taken = Promise.withResolvers<void>()
  const answers = execScript()
  const { found, seen } = await start(async (request, turn) => {
    if (request.query.get('eof') === 'true') taken.resolve()
    if (request.path.endsWith('/output')) await taken.promise
    return answers(request, turn)
  })
  const stdin = 'ä'.repeat(300_000)
  await found.commands.run('cat', { stdin })
  expect(startedWith(seen)).toMatchObject({ stdin: true, timeout_secs: 60 })
  expect(inputOf(seen).toString()).toBe(stdin)
  expect(seen.filter(({ query }) => query.get('eof') === 'true')).toHaveLength(1)
})

test('a command that reaches its timeout is an error with what it had printed, and is removed', async () => {
  const { found, seen } = await start(execScript({ exit_code: null, signal: 9, reason: 'timeout', stdout: 'so far' }))
  await expect(found.commands.run('x')).rejects.toMatchObject({
    ...{ name: 'TimeoutError', status: 504, code: 'guest_deadline' },
    problem: { stdout: 'so far', stderr: '' },
  })
  expect(wasRemoved(seen)).toBe(true)
})

test('an aborted run kills its command; one that is lost is no success', async () => {
  const aborted = new AbortController()
  const answers = execScript()
  const { found, seen } = await start((request, turn) => {
    if (!request.path.endsWith('/output')) return answers(request, turn)
    aborted.abort(new Error('enough'))
    return 'hang'
  })
  await expect(found.commands.run('x', { signal: aborted.signal })).rejects.toThrow('enough')
  expect(wasRemoved(seen)).toBe(true)
  const lost = await start(execScript({ state: 'lost', exit_code: null, reason: 'boot' }))
  await expect(lost.found.commands.run('x')).rejects.toThrow('the command is lost (boot)')
})

test('a guest that cannot keep output runs the command all the same', async () => {
  const result = {
    exit_code: 4,
    signal: null,
    stdout: 'full',
    stderr: '',
    stdout_truncated: false,
    stderr_truncated: false,
  }
  const { found, seen } = await start(({ path }) => {
    if (path.endsWith('/execs')) return problem(409, 'no_space', 'no space')
    return { body: path.endsWith('/exec') ? { ...result, duration_ms: 1 } : desktop({ state: 'awake' }) }
  })
  expect(await found.commands.run('df', { stdin: 'x' })).toMatchObject({ exitCode: 4, stdout: 'full' })
  expect(seen.at(-1)?.headers['idempotency-key']).toMatch(/./)
})

test('of a long output the beginning and the end are kept, with what is missing between them', () => {
  const kept = new KeptText(10)
  for (const text of ['ab', 'cdefgh', 'i', 'jklmnopq', 'rst']) kept.add(new TextEncoder().encode(text))
  expect([kept.end(), kept.isTruncated]).toEqual(['abcde\n… 10 characters left out …\npqrst', true])
  const whole = new KeptText(10)
  for (const byte of new TextEncoder().encode('äöüßa')) whole.add(Uint8Array.of(byte))
  expect([whole.end(), whole.isTruncated]).toEqual(['äöüßa', false])
  const gap = new KeptText(10)
  gap.add(new TextEncoder().encode('abc'))
  gap.skip(7)
  gap.add(new TextEncoder().encode('def'))
  expect([gap.end(), gap.isTruncated]).toEqual(['abc\n… 7 characters left out …\ndef', true])
})
