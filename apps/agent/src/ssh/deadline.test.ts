// Guarantee: a command's deadline counts from its request, also while its connection or its channel is being opened. What
// starts after the deadline is killed at once. (With guests: test/real/guest-exec.test.ts.)
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { GuestAgent } from '../driver/guest-transport.ts'
import { type ConnectedShells, connectToShells } from '../testing/ssh-server.ts'
import type { SshConnection } from './connection.ts'
import { execOverSsh } from './exec.ts'
import { SshTransport } from './transport.ts'
import { WarmShell } from './warm-shell.ts'

let guest: ConnectedShells
/** The guest starts nothing until this resolves. */
let busy: PromiseWithResolvers<void>
beforeEach(async () => {
  busy = Promise.withResolvers()
  guest = await connectToShells({ free: () => busy.promise })
})
afterEach(() => {
  vi.useRealTimers()
  busy.resolve()
  guest.close()
})

const request = (timeoutSecs: number, more = {}) =>
  ({ command: 'sleep 300', cwd: null, env: {}, stdin: null, timeoutSecs, ...more }) as never

/** What the guest starts, now that it is not busy any more. */
async function startedLate() {
  busy.resolve()
  await expect.poll(() => guest.shells.length).toBeGreaterThan(0)
  return guest.shells[0]!
}

test('a command that its guest does not start in time is refused, and is killed when it starts later', async () => {
  await expect(execOverSsh(guest.connection, request(1))).rejects.toMatchObject({ code: 'guest_deadline' })
  const { process } = await startedLate()
  await expect.poll(() => process.signalCode).toBe('SIGKILL')
})

test('so is a command that does not start within the timeout for opening a channel', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout'] })
  const asked = execOverSsh(guest.connection, request(300)).catch((error) => error.code)
  await vi.advanceTimersByTimeAsync(20_000)
  expect(await asked).toBe('guest_unavailable')
  vi.useRealTimers()
  const { process } = await startedLate()
  await expect.poll(() => process.signalCode).toBe('SIGKILL')
})

test('a command that is too long for the guest’s shell and not carried in time never starts', async () => {
  const long = '#'.repeat(120_000)
  await expect(execOverSsh(guest.connection, request(1, { command: long }))).rejects.toMatchObject({
    code: 'guest_deadline',
  })
  const file = /[^>]+$/.exec((await startedLate()).command)![0]
  const shells = () => guest.shells.map(({ command, process }) => [command, process.exitCode])
  await expect.poll(shells).toEqual([
    [expect.stringMatching(`cat >${file}$`), 0],
    [expect.stringMatching(`rm -f ${file}$`), 0],
  ])
})

test('the deadline counts while the connection is being opened', async () => {
  const connect = () => new Promise(() => undefined)
  const connection = { isReady: false, connect } as unknown as SshConnection
  const transport = new SshTransport({ connection, warmShell: new WarmShell(connection) }, {} as GuestAgent)
  await expect(transport.exec(request(1))).rejects.toMatchObject({ code: 'guest_deadline' })
})
