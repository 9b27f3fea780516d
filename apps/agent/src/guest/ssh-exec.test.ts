// Guarantee: whatever a guest's SSH server says, a command's answer is bounded and comes. (With guests:
// test/real/guest-exec.test.ts.)
import { once } from 'node:events'
import { newId } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { lineToServer } from '../testing/ssh-server.ts'
import { execOverSsh } from './ssh-exec.ts'

const command = () => {
  return { desktopId: newId(), generation: 1, command: 'true', cwd: null, env: {}, stdin: null, timeoutSecs: 20 }
}

test('a first line that does not end is output, cut as any other', async () => {
  const piece = Buffer.alloc(32 * 1024, 'x')
  const guest = await lineToServer(async (channel) => {
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
  const guest = await lineToServer((channel) => channel.end())
  guest.line.close()
  const dialled = guest.line.connect()
  guest.line.end()
  await expect(dialled).rejects.toMatchObject({ code: 'guest_unavailable' })
  await expect(guest.line.connect()).rejects.toMatchObject({ code: 'guest_unavailable' })
  expect(guest.line.connected).toBe(false)
  guest.close()
})

test('a first line in pieces is told from what follows it', async () => {
  const guest = await lineToServer((channel) => {
    for (const piece of ['12', '34\nou', 't']) channel.write(piece)
    channel.exit(0)
    channel.end()
  })
  expect((await execOverSsh(guest.line, command())).stdout).toBe('out')
  guest.close()
})
