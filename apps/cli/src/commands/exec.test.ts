import { execId, execScript, inputOf, startedWith, wasRemoved } from '@dormouse/client/testing/exec-script'
import { desktopId } from '@dormouse/client/testing/samples'
import { problem } from '@dormouse/client/testing/scripted-server'
import { expect, test } from 'vitest'
import { refusing, start } from '../testing/process.ts'

const printing = { stdout: 'out\n', stderr: 'err\n' }

test('the guest’s output comes out where it belongs, as it is, and nothing is left in the desktop', async () => {
  const { dormouse, seen } = await start(execScript(printing))
  expect(await dormouse(['exec', desktopId, '--', 'ls', '-l', '--', 'a b'])).toEqual({
    code: 0,
    stdout: 'out\n',
    stderr: 'err\n',
  })
  expect(startedWith(seen)).toEqual({ command: ['ls', '-l', '--', 'a b'], wait_for_reader: true })
  expect(wasRemoved(seen)).toBe(true)
  const long = 'x'.repeat(3_000_000)
  const other = await start(execScript({ stdout: long }))
  expect((await other.dormouse(['exec', desktopId, '--', 'x'])).stdout).toBe(long)
})

test.each([
  [{ exit_code: 3 }, 3],
  [{ exit_code: 125 }, 125],
  [{ exit_code: null, signal: 9 }, 137],
])('the guest’s end %o is our exit code %i, with --json too', async (end, expected) => {
  const { dormouse } = await start(execScript({ ...printing, ...end }))
  expect((await dormouse(['exec', desktopId, '--', 'x'])).code).toBe(expected)
  const { code, stdout, stderr } = await dormouse(['exec', '--json', desktopId, '--', 'x'])
  expect({ code, stderr }).toEqual({ code: expected, stderr: '' })
  expect(JSON.parse(stdout)).toMatchObject({ signal: null, ...end, ...printing, stdout_truncated: false })
})

test('output that was dropped is told, with an exit code of its own', async () => {
  const { dormouse } = await start(execScript({ ...printing, exit_code: 3, dropped: 9 }))
  const { code, stdout, stderr } = await dormouse(['exec', desktopId, '--', 'x'])
  expect([code, stdout]).toEqual([124, 'out\n'])
  expect(stderr).toContain('ended with exit code 3, but 9 bytes of its stdout and 0 of its stderr were dropped')
})

test('folder, variables, input and limits are sent; bytes that are no text arrive as they are', async () => {
  const taken = Promise.withResolvers<void>()
  const answers = execScript()
  const { dormouse, seen } = await start(async (request, turn) => {
    if (request.query.get('eof') === 'true') taken.resolve()
    if (request.path.endsWith('/output')) await taken.promise
    return answers(request, turn)
  })
  const options = ['--cwd', '/tmp', '-e', 'A=1', '--env', 'B=x=y', '-i', '--timeout-secs', '900', '--keep-awake']
  const stdin = Buffer.concat([Buffer.of(0x66, 0xff, 0), Buffer.alloc(1_000_000, 'x')])
  await dormouse(['exec', desktopId, ...options, '--', 'cat'], { stdin })
  expect(startedWith(seen)).toEqual({
    wait_for_reader: true,
    ...{ command: ['cat'], cwd: '/tmp', env: { A: '1', B: 'x=y' }, stdin: true, timeout_secs: 900, keep_awake: true },
  })
  expect(inputOf(seen).equals(stdin)).toBe(true)
})

test.each([
  [[], [undefined]],
  [['--wake'], ['allow']],
  [['--no-wake'], ['never']],
])('%j says whether the desktop is woken', async (options, wishes) => {
  const { dormouse, seen } = await start(execScript(printing))
  await dormouse(['exec', desktopId, ...options, '--', 'x'])
  const started = seen.filter(({ method, path }) => method === 'POST' && path.endsWith('/execs'))
  expect(started.map(({ headers }) => headers['dormouse-wake'])).toEqual(wishes)
})

test('Ctrl-C and other signals are the command’s', async () => {
  const answers = execScript({ exit_code: null, signal: 15 })
  const ended = Promise.withResolvers<void>()
  let pid: number | undefined
  let isInterrupted = false
  const { dormouse, seen } = await start(async (request, turn) => {
    if (request.path.endsWith('/signal')) {
      if (JSON.parse(String(request.body)).signal === 15) ended.resolve()
      else process.kill(pid!, 'SIGTERM')
    } else if (request.path.endsWith('/output')) {
      if (!isInterrupted) process.kill(pid!, 'SIGINT')
      isInterrupted = true
      await ended.promise
    }
    return answers(request, turn)
  })
  const whileRunning = (child: { pid?: number | undefined }) => {
    pid = child.pid
  }
  expect((await dormouse(['exec', desktopId, '--', 'sleep', '9'], { whileRunning })).code).toBe(143)
  const signals = seen.filter(({ path }) => path.endsWith(`/execs/${execId}/signal`))
  expect(signals.map(({ body }) => JSON.parse(String(body)).signal)).toEqual(expect.arrayContaining([2, 15]))
  expect(wasRemoved(seen)).toBe(true)
})

test('a command that reaches its timeout is 125, behind what it had printed', async () => {
  const { dormouse, seen } = await start(execScript({ ...printing, exit_code: null, signal: 9, reason: 'timeout' }))
  const { code, stdout, stderr } = await dormouse(['exec', '--timeout-secs', '9', desktopId, '--', 'x'])
  expect([code, stdout]).toEqual([125, 'out\n'])
  expect(stderr).toContain('dormouse: the command ran longer than 9 s and was ended\nNext step: raise --timeout-secs')
  expect(wasRemoved(seen)).toBe(true)
})

test.each([
  [401, 'unauthenticated', 'DORMOUSE_API_KEY'],
  [404, 'not_found', 'dormouse list'],
  [409, 'not_awake', `dormouse wake ${desktopId}`],
])('%i %s is 125 with the next step', async (status, code, next) => {
  const { dormouse } = await refusing(status, code, 'what happened')
  const ended = await dormouse(['exec', desktopId, '--', 'true'])
  expect(ended).toMatchObject({ code: 125, stdout: '' })
  expect(ended.stderr).toContain('dormouse: what happened\nNext step: ')
  expect(ended.stderr).toContain(next)
})

test('a start that is not possible now is asked for again with its key', async () => {
  const answers = execScript(printing)
  const { dormouse, seen } = await start((request, turn) =>
    turn === 0 ? problem(503, 'not_leader', 'ask again') : answers(request, turn),
  )
  expect((await dormouse(['exec', desktopId, '--', 'true'])).stdout).toBe('out\n')
  const [first, second] = seen
  expect(first?.headers['idempotency-key']).toBe(second?.headers['idempotency-key'])
})

test('wrong usage is 125 too, and the help says what is checked', async () => {
  const { dormouse } = await start(execScript())
  expect((await dormouse(['exec', desktopId])).code).toBe(125)
  expect(await dormouse(['exec', desktopId, 'ls', '-l'])).toMatchObject({
    code: 125,
    stderr: expect.stringContaining('put -- before the command'),
  })
  const [, most] = /at\s+most\s+(\d+)/.exec((await dormouse(['exec', '--help'])).stdout)!
  for (const [secs, code] of [
    ['0', 125],
    [most!, 0],
    [String(Number(most) + 1), 125],
  ] as const)
    expect([secs, (await dormouse(['exec', '--timeout-secs', secs, desktopId, '--', 'x'])).code]).toEqual([secs, code])
  expect((await dormouse(['exec', '-e', 'novalue', desktopId, '--', 'x'])).code).toBe(125)
})
