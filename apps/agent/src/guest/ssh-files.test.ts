// Guarantee: whatever a guest's SSH server says to a file, it costs its host little, and the answer comes. (With guests:
// test/real/guest-files.test.ts.)
import { expect, test } from 'vitest'
import { lineToServer } from '../testing/ssh-server.ts'
import { uploadOverSsh } from './ssh-files.ts'

test('a guest that never ends to say where the file lies is let go of', async () => {
  const letGo = Promise.withResolvers<void>()
  const guest = await lineToServer((channel) => {
    const pour = () => {
      while (channel.write(Buffer.alloc(32 * 1024, 'x')));
    }
    channel.on('drain', pour).once('close', letGo.resolve).resume()
    pour()
  })
  await expect(uploadOverSsh(guest.line, '/srv/file', null)).rejects.toMatchObject({ code: 'guest_unavailable' })
  await letGo.promise
  guest.close()
})
