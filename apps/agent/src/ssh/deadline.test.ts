// Guarantee: a command's time counts from when it is taken, also while its connection or its channel is being begun, and
// what is begun when its time is over is ended at once. (With guests: test/real/guest-exec.test.ts.)
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { GuestTransport } from '../driver/guest-transport.ts'
import { SshTransport } from '../guest/ssh-first.ts'
import { type LineToShells, lineToShells } from '../testing/ssh-server.ts'
import type { SshLine } from './connection.ts'
import { execOverSsh } from './exec.ts'
import { SpareShell } from './warm-shell.ts'

let guest: LineToShells
/** Until this is let go, the guest begins nothing. */
let busy: PromiseWithResolvers<void>
beforeEach(async () => {
  busy = Promise.withResolvers()
  guest = await lineToShells({ free: () => busy.promise })
})
afterEach(() => {
  vi.useRealTimers()
  busy.resolve()
  guest.close()
})

const wish = (timeoutSecs: number, more = {}) =>
  ({ command: 'sleep 300', cwd: null, env: {}, stdin: null, timeoutSecs, ...more }) as never

/** What the guest begins, now that it is not busy any more. */
async function begunLate() {
  busy.resolve()
  await expect.poll(() => guest.shells.length).toBeGreaterThan(0)
  return guest.shells[0]!
}

test('a command that its guest does not begin in time is 504, and is ended when it begins after all', async () => {
  await expect(execOverSsh(guest.line, wish(1))).rejects.toMatchObject({ code: 'guest_deadline' })
  const { process } = await begunLate()
  await expect.poll(() => process.signalCode).toBe('SIGKILL')
})

test('so is one that was given up before its time was over', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout'] })
  const asked = execOverSsh(guest.line, wish(300)).catch((error) => error.code)
  await vi.advanceTimersByTimeAsync(20_000)
  expect(await asked).toBe('guest_unavailable')
  vi.useRealTimers()
  const { process } = await begunLate()
  await expect.poll(() => process.signalCode).toBe('SIGKILL')
})

test('one too long for the guest’s shell, which it does not take in time, never begins', async () => {
  const long = '#'.repeat(120_000)
  await expect(execOverSsh(guest.line, wish(1, { command: long }))).rejects.toMatchObject({ code: 'guest_deadline' })
  const file = /[^>]+$/.exec((await begunLate()).command)![0]
  const says = () => guest.shells.map(({ command, process }) => [command, process.exitCode])
  await expect.poll(says).toEqual([
    [expect.stringMatching(`cat >${file}$`), 0],
    [expect.stringMatching(`rm -f ${file}$`), 0],
  ])
})

test('while a connection is dialled the time runs too', async () => {
  const line = { ready: false, hopeless: false, connect: () => new Promise(() => undefined) } as unknown as SshLine
  const transport = new SshTransport({ line, spare: new SpareShell(line) }, {} as GuestTransport)
  const signal = new AbortController().signal
  await expect(transport.exec(wish(1), signal)).rejects.toMatchObject({ code: 'guest_deadline' })
})
