// Guarantee: whatever a guest's SSH server sends, a command gets its answer, and that is bounded. (With guests:
// test/real/guest-exec.test.ts.)
import { newId } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { connectToServer } from '../testing/ssh-server.ts'
import { execOverSsh } from './exec.ts'

const command = () => {
  return { desktopId: newId(), generation: 1, command: 'true', cwd: null, env: {}, stdin: null, timeoutSecs: 20 }
}

test('a login shell that never stops printing before the command is refused, and its channel closed', async () => {
  const closed = Promise.withResolvers<void>()
  const guest = await connectToServer((channel) => {
    const pour = () => {
      while (channel.write(Buffer.alloc(32 * 1024, 'x')));
    }
    channel.on('drain', pour).once('close', closed.resolve).resume()
    pour()
  })
  await expect(execOverSsh(guest.connection, command())).rejects.toMatchObject({ code: 'command_not_run' })
  await closed.promise
  guest.close()
})

test('a connection that has ended is not opened again, nor kept where it was being opened', async () => {
  const guest = await connectToServer((channel) => channel.end())
  guest.connection.close()
  const connecting = guest.connection.connect()
  guest.connection.end()
  await expect(connecting).rejects.toMatchObject({ code: 'guest_unavailable' })
  await expect(guest.connection.connect()).rejects.toMatchObject({ code: 'guest_unavailable' })
  expect(guest.connection.isConnected).toBe(false)
  guest.close()
})

test('a start line in pieces is separated from the output after it', async () => {
  const guest = await connectToServer((channel, script) => {
    const start = /^echo "(.*) \$\$"/.exec(script)![1]
    for (const piece of ['greeting', `${start} 12`, '34\nou', 't']) channel.write(piece)
    channel.exit(0)
    channel.end()
  })
  expect((await execOverSsh(guest.connection, command())).stdout).toBe('out')
  guest.close()
})
