// Guarantee: a simulated guest answers the first words that people try, and names what it knows when it cannot.
import { expect, test } from 'vitest'
import { runArray, runShell, type ShellWorld } from './shell.ts'

const world: ShellWorld = {
  env: {},
  read: (path) => (path === '/root/notes' ? 'kept' : undefined),
  write: () => undefined,
  remove: () => undefined,
  nowMs: () => 0,
  sleep: async () => undefined,
}

test('uname, hostname and ls of a file answer', async () => {
  const { stdout, exitCode } = await runShell(world, 'uname -a; hostname; ls -l /root/notes', '')
  expect([exitCode, stdout]).toEqual([0, 'Linux simulated, without a kernel\nsimulated\n/root/notes\n'])
  expect(await runShell(world, 'ls /none', '')).toMatchObject({ exitCode: 1, stderr: expect.stringMatching('/none') })
})

test('what it does not know is told with what it knows', async () => {
  const told = /a simulated guest knows only true, .*echo.*uname/
  expect(await runShell(world, 'apt update', '')).toMatchObject({ exitCode: 127, stderr: expect.stringMatching(told) })
  expect(await runArray(world, ['help'], '')).toMatchObject({ exitCode: 0, stdout: expect.stringMatching(told) })
})
