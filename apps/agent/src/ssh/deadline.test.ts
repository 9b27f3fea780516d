// Guarantee: a command's deadline counts from its request, also while its connection or its channel is being opened. What
// starts after the deadline is killed at once. (With guests: test/real/guest-exec.test.ts.)
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { newId } from '@dormouse/contract'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { CommandLost } from '../driver/guest-transport.ts'
import { connectToShells, runOver } from '../testing/ssh-server.ts'
import { GuestCalls } from './calls.ts'
import type { SshConnection } from './connection.ts'
import { runCommand } from './exec.ts'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'dormouse-deadline-'))
})
afterEach(() => rmSync(folder, { recursive: true }))

const request = (timeoutSecs: number, command: string, more = {}) => {
  const target = { desktopId: newId(), generation: 1 }
  return { ...target, command, cwd: null, env: {}, stdin: null, timeoutSecs, ...more }
}

test('a command that its guest does not start in time is refused, and does not start later', async () => {
  const busy = Promise.withResolvers<void>()
  const guest = await connectToShells({ free: () => busy.promise })
  const file = join(folder, 'started')
  await expect(runOver(guest.connection, request(1, `touch ${file}`))).rejects.toMatchObject({ code: 'guest_deadline' })
  busy.resolve()
  expect((await runOver(guest.connection, request(20, 'echo works'))).stdout).toBe('works\n')
  expect(existsSync(file)).toBe(false)
  guest.close()
})

test('a channel that does not open within its own timeout is a guest that is unavailable', async () => {
  const busy = Promise.withResolvers<void>()
  const guest = await connectToShells({ free: () => busy.promise })
  vi.useFakeTimers({ toFake: ['setTimeout'] })
  const asked = runOver(guest.connection, request(300, 'true')).catch((error) => error.code)
  await vi.advanceTimersByTimeAsync(20_000)
  expect(await asked).toBe('guest_unavailable')
  vi.useRealTimers()
  busy.resolve()
  guest.close()
})

test('the deadline counts while the connection is being opened', async () => {
  const connection = { isReady: false, connect: () => new Promise(() => undefined) } as unknown as SshConnection
  const asked = runCommand(new GuestCalls(connection), request(1, 'true'))
  await expect(asked).rejects.toMatchObject({ code: 'guest_deadline' })
})

test('at its deadline a command is killed with all of its session, and what it had printed is the result', async () => {
  const guest = await connectToShells()
  const alive = join(folder, 'alive')
  // A group of its own, in the same session.
  writeFileSync(
    join(folder, 'job'),
    `set -m; trap '' TERM; (while sleep 0.1; do touch ${alive}; done) & echo begun; wait`,
  )
  await runOver(guest.connection, request(20, 'true'))
  const command = request(2, `. ${folder}/job`, { showsTimeout: true })
  expect(await runOver(guest.connection, command)).toMatchObject({ timedOut: true, stdout: 'begun\n', exitCode: null })
  rmSync(alive, { force: true })
  expect((await runOver(guest.connection, request(20, 'sleep 0.5; echo later'))).stdout).toBe('later\n')
  expect(existsSync(alive)).toBe(false)
  guest.close()
})

test('a connection that is lost ends no command: its result is read over the next one', async () => {
  const guest = await connectToShells()
  const file = join(folder, 'times')
  const running = runOver(guest.connection, request(20, `echo x >>${file}; sleep 1; echo done; exit 3`))
  await expect.poll(() => existsSync(file)).toBe(true)
  guest.connection.close()
  expect(await running).toMatchObject({ exitCode: 3, stdout: 'done\n' })
  expect((await runOver(guest.connection, request(20, `cat ${file}`))).stdout).toBe('x\n')
  guest.close()
})

test('a command whose start was answered by nobody is not started again by a guest that has booted', async () => {
  const asked: unknown[] = []
  const call = async ({ words: [, operation] }: { words: readonly unknown[] }, how?: { repeats?: boolean }) => {
    asked.push([operation, how?.repeats ?? true])
    if (operation === 'start') throw new CommandLost('the connection was lost')
    return Buffer.from('no unknown\n')
  }
  await expect(runCommand({ call } as never, request(20, 'reboot -f'))).rejects.toBeInstanceOf(CommandLost)
  expect(asked).toEqual([
    ['start', false],
    ['end', true],
  ])
})
