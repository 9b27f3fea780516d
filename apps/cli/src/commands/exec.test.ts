import { desktopId } from '@dormouse/client/testing/samples'
import { expect, test } from 'vitest'
import { refusing, start } from '../testing/process.ts'

const done = {
  exit_code: 0,
  signal: null,
  stdout: 'out\n',
  stderr: 'err\n',
  stdout_truncated: false,
  stderr_truncated: false,
  duration_ms: 3,
}

test('the guest’s output comes out where it belongs', async () => {
  const { dormouse, seen } = await start(() => ({ body: done }))
  expect(await dormouse(['exec', desktopId, '--', 'ls', '-l', '--', 'a b'])).toEqual({
    code: 0,
    stdout: 'out\n',
    stderr: 'err\n',
  })
  expect(JSON.parse(String(seen[0]?.body))).toEqual({ command: ['ls', '-l', '--', 'a b'] })
})

test.each([
  [{ exit_code: 3 }, 3],
  [{ exit_code: 125 }, 125],
  [{ exit_code: null, signal: 9 }, 137],
])('the guest’s end %o is our exit code %i, with --json too', async (end, expected) => {
  const { dormouse } = await start(() => ({ body: { ...done, ...end } }))
  expect((await dormouse(['exec', desktopId, '--', 'x'])).code).toBe(expected)
  const { code, stdout, stderr } = await dormouse(['exec', '--json', desktopId, '--', 'x'])
  expect({ code, stderr, document: JSON.parse(stdout) }).toEqual({
    code: expected,
    stderr: '',
    document: { ...done, ...end },
  })
})

test('folder, variables, input and limit are sent', async () => {
  const { dormouse, seen } = await start(() => ({ body: done }))
  const options = ['--cwd', '/tmp', '-e', 'A=1', '--env', 'B=x=y', '-i', '--timeout-secs', '9']
  await dormouse(['exec', desktopId, ...options, '--', 'cat'], { stdin: 'süß' })
  expect(JSON.parse(String(seen[0]?.body))).toEqual({
    command: ['cat'],
    cwd: '/tmp',
    env: { A: '1', B: 'x=y' },
    stdin: 'süß',
    timeout_secs: 9,
  })
})

test('input that is no text is refused, not changed', async () => {
  const { dormouse, seen } = await start(() => ({ body: done }))
  const { code, stderr } = await dormouse(['exec', '-i', desktopId, '--', 'cat'], { stdin: Buffer.of(0x66, 0xff) })
  expect([code, stderr]).toEqual([125, expect.stringContaining('dormouse cp')])
  expect(seen).toEqual([])
})

test('output that was cut is said so', async () => {
  const { dormouse } = await start(() => ({ body: { ...done, stdout_truncated: true } }))
  expect((await dormouse(['exec', desktopId, '--', 'x'])).stderr).toContain('the output was cut')
})

test.each([
  [401, 'unauthenticated', 'DORMOUSE_API_KEY'],
  [404, 'not_found', 'dormouse list'],
  [409, 'not_awake', `dormouse wake ${desktopId}`],
  [503, 'host_unreachable', 'retry'],
  [504, 'guest_deadline', '--timeout-secs'],
])('%i %s is 125 with the next step, and is asked once', async (status, code, next) => {
  const { dormouse, seen } = await refusing(status, code, 'what happened')
  const ended = await dormouse(['exec', desktopId, '--', 'true'])
  expect(ended).toMatchObject({ code: 125, stdout: '' })
  expect(ended.stderr).toContain('dormouse: what happened\nNext step: ')
  expect(ended.stderr).toContain(next)
  expect(seen).toHaveLength(1)
})

test('wrong usage is 125 too', async () => {
  const { dormouse } = await start(() => ({ body: done }))
  expect((await dormouse(['exec', desktopId])).code).toBe(125)
  expect(await dormouse(['exec', desktopId, 'ls', '-l'])).toMatchObject({
    code: 125,
    stderr: expect.stringContaining('put -- before the command'),
  })
  expect((await dormouse(['exec', '--timeout-secs', '0', desktopId, '--', 'x'])).code).toBe(125)
  expect((await dormouse(['exec', '-e', 'novalue', desktopId, '--', 'x'])).code).toBe(125)
})
