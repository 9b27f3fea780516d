// Guarantee: whatever a guest's SSH server says, a command's answer is bounded and comes. (With guests:
// test/real/guest-exec.test.ts.)
import { newId } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { lineToServer } from '../testing/ssh-server.ts'
import { execOverSsh } from './exec.ts'

const command = () => {
  return { desktopId: newId(), generation: 1, command: 'true', cwd: null, env: {}, stdin: null, timeoutSecs: 20 }
}

test('a shell that never comes to the command is let go of, and said', async () => {
  const letGo = Promise.withResolvers<void>()
  const guest = await lineToServer((channel) => {
    const pour = () => {
      while (channel.write(Buffer.alloc(32 * 1024, 'x')));
    }
    channel.on('drain', pour).once('close', letGo.resolve).resume()
    pour()
  })
  await expect(execOverSsh(guest.line, command())).rejects.toMatchObject({ code: 'command_not_run' })
  await letGo.promise
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
  const guest = await lineToServer((channel, script) => {
    const word = /^echo "(.*) \$\$"/.exec(script)![1]
    for (const piece of ['greeting', `${word} 12`, '34\nou', 't']) channel.write(piece)
    channel.exit(0)
    channel.end()
  })
  expect((await execOverSsh(guest.line, command())).stdout).toBe('out')
  guest.close()
})
