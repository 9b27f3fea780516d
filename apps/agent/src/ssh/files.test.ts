// Guarantee: whatever a guest's SSH server says to a file, it costs its host little, and the answer comes. (With guests:
// test/real/guest-files.test.ts.)
import { Duplex, PassThrough } from 'node:stream'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, test } from 'vitest'
import { lineToServer } from '../testing/ssh-server.ts'
import type { SshLine } from './connection.ts'
import { openOverSsh, uploadOverSsh } from './files.ts'

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

/** A channel on which the test itself is the guest. */
const handChannel = () =>
  Object.assign(new Duplex({ read: () => undefined, write: (_bytes, _encoding, done) => done() }), {
    stderr: new PassThrough(),
    close: () => undefined,
  })

function heapBytes(): number {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  collect()
  return process.memoryUsage().heapUsed
}

test('a file that comes in any number of pieces leaves nothing of each behind', async () => {
  const channel = handChannel()
  const open = async (script: string, wrap: (channel: never) => unknown) => {
    channel.push(`${/dormouse-\w+ began /.exec(script)![0]}1\n\n`)
    return wrap(channel as never)
  }
  const file = await openOverSsh({ open } as unknown as SshLine, '/x')
  const readSome = async (pieces: number) => {
    for (let i = 0; i < pieces; i++) {
      channel.push('x')
      await file.read()
    }
  }
  await readSome(1_000)
  const before = heapBytes()
  await readSome(100_000)
  expect(heapBytes() - before).toBeLessThan(4 * 1024 * 1024)
})
