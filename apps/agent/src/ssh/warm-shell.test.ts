// Guarantee: a command runs in a warm shell as in one that was started for it, and never waits for a shell that has ended. (With guests: test/real/guest-exec.test.ts.)
import { mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { warmShellScript } from '../scripts/command.ts'
import { type ConnectedShells, connectToShells } from '../testing/ssh-server.ts'
import type { SshConnection } from './connection.ts'
import { execOverSsh } from './exec.ts'
import { WarmShell } from './warm-shell.ts'

let guest: ConnectedShells
let warmShell: WarmShell

beforeEach(async () => {
  guest = await connectToShells()
  warmShell = new WarmShell(guest.connection)
})
afterEach(() => guest.close())

/** The last shell that was started without a command. */
const lastShell = () => guest.shells.findLast(({ command }) => command.endsWith(warmShellScript()))!.process

const run = (command: string | string[], more = {}) =>
  execOverSsh(
    guest.connection,
    { command, cwd: null, env: {}, stdin: null, timeoutSecs: 20, ...more } as never,
    warmShell,
  )

/** Waits for a warm shell, and returns its process. */
const untilReady = async () => {
  await expect.poll(() => warmShell.isReady).toBe(true)
  return lastShell().pid
}

test('a command runs in the warm shell, with its own output, folder, variables and exit code', async () => {
  warmShell.prepare()
  const pid = await untilReady()
  const env = { PLAIN: `it's "so" $HOME\n`, 'odd.name': '1' }
  const result = await run('echo $$; pwd; printf %s "$PLAIN"; cat; echo err >&2; exit 3', { cwd: '/', env })
  expect(result).toMatchObject({ exitCode: 3, stdout: `${pid}\n/\n${env.PLAIN}`, stderr: 'err\n' })
  await untilReady()
  expect((await run(['env'], { env })).stdout).toContain('odd.name=1\n')
  await untilReady()
  expect(await run('kill -9 $$')).toMatchObject({ exitCode: null, signal: 9 })
  await untilReady()
  expect((await run(['printf', '%s|', 'x'.repeat(120_000), "'\n"])).stdout).toBe(`${'x'.repeat(120_000)}|'\n|`)
})

test('variables that are read-only in a shell have the caller’s values', async () => {
  const bash = await connectToShells({ shell: '/bin/bash' })
  const env = { UID: '7', PPID: '8', SHELLOPTS: 'x', PLAIN: '9' }
  const command = ['printenv', ...Object.keys(env)]
  const result = await execOverSsh(bash.connection, { command, env, cwd: null, stdin: null, timeoutSecs: 20 } as never)
  expect(result).toMatchObject({ stdout: '7\n8\nx\n9\n', stderr: '' })
  bash.close()
})

test('a command that reports another program as missing was run', async () => {
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
])('%j in %s is refused in a warm shell too', async (command, cwd) => {
  warmShell.prepare()
  await untilReady()
  await expect(run(command, { cwd })).rejects.toMatchObject({ code: 'command_not_run' })
})

test('a command starts in the home folder as it is then, not as it was when its shell started', async () => {
  const home = mkdtempSync(join(tmpdir(), 'dormouse-home-'))
  vi.stubEnv('HOME', home)
  warmShell.prepare()
  await untilReady()
  renameSync(home, `${home}.old`)
  mkdirSync(home)
  expect((await run('pwd')).stdout).toBe(`${home}\n`)
  for (const each of [home, `${home}.old`]) rmSync(each, { recursive: true })
  vi.unstubAllEnvs()
})

test('however often a shell is requested while one starts, only that one starts', async () => {
  vi.useFakeTimers()
  const openChannel = vi.fn(() => new Promise<never>(() => undefined))
  const slow = new WarmShell({ isReady: true, openChannel, inBackground: () => undefined } as unknown as SshConnection)
  for (let i = 0; i < 3; i++) {
    slow.prepare()
    await vi.advanceTimersByTimeAsync(50)
  }
  vi.useRealTimers()
  expect(openChannel).toHaveBeenCalledTimes(1)
})

test('a command with an input starts a shell of its own, and leaves the warm shell for the next', async () => {
  warmShell.prepare()
  const pid = await untilReady()
  expect((await run('cat', { stdin: 'in' })).stdout).toBe('in')
  expect((await run('echo $$')).stdout).toBe(`${pid}\n`)
})

test('a warm shell that has ended is not used', async () => {
  warmShell.prepare()
  await untilReady()
  lastShell().kill('SIGKILL')
  await expect.poll(() => warmShell.isReady).toBe(false)
  expect((await run('echo works')).stdout).toBe('works\n')
})

test('nor is one whose connection was lost', async () => {
  warmShell.prepare()
  await untilReady()
  guest.connection.close()
  await guest.connection.connect()
  expect((await run('echo works')).stdout).toBe('works\n')
})

test('at its deadline a command in a warm shell is killed with all that it started', async () => {
  warmShell.prepare()
  await untilReady()
  const pid = lastShell().pid!
  const work = run(`trap '' TERM; sleep 300 & wait; sleep 300`, { timeoutSecs: 1 })
  await expect(work).rejects.toMatchObject({ code: 'guest_deadline' })
  await expect.poll(async () => (await run(`ps -o stat= -s ${pid} | grep -v Z || echo none`)).stdout).toBe('none\n')
})
