// Guarantee: whatever a guest's SSH server says, a command's answer is bounded and comes. (With guests:
// test/real/guest-exec.test.ts.)
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { newId } from '@dormouse/contract'
import { createLog } from '@dormouse/process'
import ssh2, { type ServerChannel } from 'ssh2'
import { expect, test } from 'vitest'
import { execOverSsh } from './ssh-exec.ts'
import { newPair, SshKeys } from './ssh-keys.ts'
import { SshLine } from './ssh-line.ts'

/** The one who listens is the guest, and says to a command what `answer` says. */
async function guestThat(answer: (channel: ServerChannel) => void): Promise<{ line: SshLine; close(): void }> {
  const [host, ours] = [newPair(), newPair()]
  const server = new ssh2.Server({ hostKeys: [host.private] }, (client) => {
    client.on('error', () => undefined).on('authentication', (context) => context.accept())
    client.on('session', (accept) => accept().on('exec', (acceptExec) => answer(acceptExec())))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const keys = new SshKeys('/nowhere')
  keys.read = async () => ({ privateKey: ours.private, hostKey: host.public.split(' ')[1]! })
  const line = new SshLine({
    desktopId: newId(),
    door: async () => ({ host: '127.0.0.1', port, localAddress: '127.0.0.1' }),
    agent: undefined as never,
    keys,
    pulse: { frozen: () => false, busy: async () => true },
    log: createLog({ name: 'line', level: 'silent' }),
  })
  await line.connect()
  return { line, close: () => (line.close(), server.close()) }
}

const command = () => {
  return { desktopId: newId(), generation: 1, command: 'true', cwd: null, env: {}, stdin: null, timeoutSecs: 20 }
}

test('a first line that does not end is output, cut as any other', async () => {
  const piece = Buffer.alloc(32 * 1024, 'x')
  const guest = await guestThat(async (channel) => {
    for (let sent = 0; sent < 8 * 1024 * 1024; sent += piece.length)
      if (!channel.write(piece)) await once(channel, 'drain')
    channel.exit(0)
    channel.end()
  })
  const result = await execOverSsh(guest.line, command())
  expect(result).toMatchObject({ exitCode: 0, stdoutTruncated: true })
  expect(result.stdout).toBe('x'.repeat(1024 * 1024))
  guest.close()
})

test('a line that was given up is not dialled again, nor kept where it was being dialled', async () => {
  const guest = await guestThat((channel) => channel.end())
  guest.line.close()
  const dialled = guest.line.connect()
  guest.line.end()
  await expect(dialled).rejects.toMatchObject({ code: 'guest_unavailable' })
  await expect(guest.line.connect()).rejects.toMatchObject({ code: 'guest_unavailable' })
  expect(guest.line.connected).toBe(false)
  guest.close()
})

test('a first line in pieces is told from what follows it', async () => {
  const guest = await guestThat((channel) => {
    for (const piece of ['12', '34\nou', 't']) channel.write(piece)
    channel.exit(0)
    channel.end()
  })
  expect((await execOverSsh(guest.line, command())).stdout).toBe('out')
  guest.close()
})
