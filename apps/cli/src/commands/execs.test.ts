import { desktopId } from '@dormouse/client/testing/samples'
import { expect, test } from 'vitest'
import { start } from '../testing/process.ts'

const execId = '01980f3e-7a5c-7c1e-9d54-1c2f5e6a7b81'
const exec = {
  ...{ id: execId, desktop_id: desktopId, state: 'exited', exit_code: 7, signal: null, reason: null },
  ...{ started_at: '2026-01-01T12:00:00.000Z', command: 'make' },
  ...{ stdout: { start: 0, end: 4, dropped_bytes: 0 }, stderr: { start: 0, end: 0, dropped_bytes: 0 } },
}
const piece = (text: string, next: number, end = false) => ({
  headers: {
    'dormouse-next-offset': String(next),
    'dormouse-exec-state': end ? 'exited' : 'running',
    'dormouse-output-end': String(end),
  },
  body: text,
})

test('start prints the id, and sends what was asked for', async () => {
  const { dormouse, seen } = await start(() => ({ status: 201, body: exec }))
  const { code, stdout } = await dormouse([
    'start',
    desktopId,
    '--cwd',
    '/srv',
    '--timeout-secs',
    '9',
    '--',
    'make',
    '-j2',
  ])
  expect([code, stdout.trim()]).toEqual([0, execId])
  expect(JSON.parse(String(seen[0]?.body))).toEqual({ command: ['make', '-j2'], cwd: '/srv', timeout_secs: 9 })
})

test('logs --follow prints the bytes, names what was dropped, and exits as the command did', async () => {
  const pieces = [piece('one ', 4), piece('three', 13, true)]
  const { dormouse } = await start(({ path }) => (path.endsWith('/output') ? pieces.shift()! : { body: exec }))
  const { code, stdout, stderr } = await dormouse(['logs', desktopId, execId, '--follow'])
  expect([code, stdout]).toEqual([7, 'one three'])
  expect(stderr).toContain('4 bytes were dropped before offset 8')
})

test('logs prints what is there, and waits for nothing', async () => {
  const pieces = [piece('one', 3), piece('', 3)]
  const { dormouse } = await start(() => pieces.shift()!)
  expect(await dormouse(['logs', desktopId, execId])).toEqual({ code: 0, stdout: 'one', stderr: '' })
})

test('execs lists them, and signal sends one', async () => {
  const { dormouse, seen } = await start(({ method }) => ({ body: method === 'GET' ? { execs: [exec] } : exec }))
  expect((await dormouse(['execs', desktopId])).stdout).toMatch(/exited 7 .*make/)
  expect((await dormouse(['signal', desktopId, execId, '9'])).code).toBe(0)
  expect(JSON.parse(String(seen.at(-1)?.body))).toEqual({ signal: 9 })
})
