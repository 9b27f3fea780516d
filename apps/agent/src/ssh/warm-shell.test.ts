// Guarantee: a command finds a shell that waits for it, is its own as in one that was begun for it, and never waits for a
// shell that is gone. (With guests: test/real/guest-exec.test.ts.)
import { mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { spareScript } from '../scripts/exec.ts'
import { type LineToShells, lineToShells } from '../testing/ssh-server.ts'
import type { SshLine } from './connection.ts'
import { execOverSsh } from './exec.ts'
import { SpareShell } from './warm-shell.ts'

let guest: LineToShells
let spare: SpareShell

beforeEach(async () => {
  guest = await lineToShells()
  spare = new SpareShell(guest.line)
})
afterEach(() => guest.close())

/** The last shell that was begun to wait. */
const waiter = () => guest.shells.findLast(({ command }) => command.endsWith(spareScript()))!.process

const run = (command: string | string[], more = {}) =>
  execOverSsh(guest.line, { command, cwd: null, env: {}, stdin: null, timeoutSecs: 20, ...more } as never, spare)

/** The process of the shell that waits. */
const waiting = async () => {
  await expect.poll(() => spare.waits).toBe(true)
  return waiter().pid
}

test('a command runs in the shell that waits, with its own words, folder, variables and end', async () => {
  spare.prepare()
  const pid = await waiting()
  const env = { PLAIN: `it's "so" $HOME\n`, 'odd.name': '1' }
  const told = await run('echo $$; pwd; printf %s "$PLAIN"; cat; echo err >&2; exit 3', { cwd: '/', env })
  expect(told).toMatchObject({ exitCode: 3, stdout: `${pid}\n/\n${env.PLAIN}`, stderr: 'err\n' })
  await waiting()
  expect((await run(['env'], { env })).stdout).toContain('odd.name=1\n')
  await waiting()
  expect(await run('kill -9 $$')).toMatchObject({ exitCode: null, signal: 9 })
  await waiting()
  expect((await run(['printf', '%s|', 'x'.repeat(120_000), "'\n"])).stdout).toBe(`${'x'.repeat(120_000)}|'\n|`)
})

test('variables that a shell keeps to itself are the caller’s all the same', async () => {
  const bash = await lineToShells({ shell: '/bin/bash' })
  const env = { UID: '7', PPID: '8', SHELLOPTS: 'x', PLAIN: '9' }
  const command = ['printenv', ...Object.keys(env)]
  const told = await execOverSsh(bash.line, { command, env, cwd: null, stdin: null, timeoutSecs: 20 } as never)
  expect(told).toMatchObject({ stdout: '7\n8\nx\n9\n', stderr: '' })
  bash.close()
})

test('a program that says itself that there is no other is no command that was not run', async () => {
  expect(await run(['setsid', '-w', 'no-such-program'])).toMatchObject({
    exitCode: 127,
    stderr: expect.stringMatching('setsid'),
  })
  expect(await run('echo "setsid: no" >&2; exit 127')).toMatchObject({ exitCode: 127, stderr: 'setsid: no\n' })
})

test.each([
  [['no-such-program'], null],
  [['/etc/passwd'], null],
  ['true', '/no/such/folder'],
])('%j in %s is refused there too', async (command, cwd) => {
  spare.prepare()
  await waiting()
  await expect(run(command, { cwd })).rejects.toMatchObject({ code: 'command_not_run' })
})

test('a command begins in the home folder of its time, not of the time when its shell was begun', async () => {
  const home = mkdtempSync(join(tmpdir(), 'dormouse-home-'))
  vi.stubEnv('HOME', home)
  spare.prepare()
  await waiting()
  renameSync(home, `${home}.old`)
  mkdirSync(home)
  expect((await run('pwd')).stdout).toBe(`${home}\n`)
  for (const each of [home, `${home}.old`]) rmSync(each, { recursive: true })
  vi.unstubAllEnvs()
})

test('however often it is asked for while one is begun, one shell waits', async () => {
  vi.useFakeTimers()
  const open = vi.fn(() => new Promise<never>(() => undefined))
  const slow = new SpareShell({ ready: true, open, aside: () => undefined } as unknown as SshLine)
  for (let i = 0; i < 3; i++) {
    slow.prepare()
    await vi.advanceTimersByTimeAsync(50)
  }
  vi.useRealTimers()
  expect(open).toHaveBeenCalledTimes(1)
})

test('a command with an input begins a shell of its own, and leaves the other to wait', async () => {
  spare.prepare()
  const pid = await waiting()
  expect((await run('cat', { stdin: 'in' })).stdout).toBe('in')
  expect((await run('echo $$')).stdout).toBe(`${pid}\n`)
})

test('a shell that was ended while it waited serves nobody', async () => {
  spare.prepare()
  await waiting()
  waiter().kill('SIGKILL')
  await expect.poll(() => spare.waits).toBe(false)
  expect((await run('echo works')).stdout).toBe('works\n')
})

test('nor does one whose connection was lost', async () => {
  spare.prepare()
  await waiting()
  guest.line.close()
  await guest.line.connect()
  expect((await run('echo works')).stdout).toBe('works\n')
})

test('at its deadline a command in it is ended with all it began', async () => {
  spare.prepare()
  await waiting()
  const pid = waiter().pid!
  const work = run(`trap '' TERM; sleep 300 & wait; sleep 300`, { timeoutSecs: 1 })
  await expect(work).rejects.toMatchObject({ code: 'guest_deadline' })
  await expect.poll(async () => (await run(`ps -o stat= -s ${pid} | grep -v Z || echo none`)).stdout).toBe('none\n')
})
