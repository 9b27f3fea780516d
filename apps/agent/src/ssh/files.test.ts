// Guarantee: whatever a guest's SSH server sends for a file, the caller gets an answer, and the host holds little memory. (With guests:
// test/real/guest-files.test.ts.)
import { Duplex, PassThrough } from 'node:stream'
import { usedBytes } from '@dormouse/process/testing'
import type { ServerChannel } from 'ssh2'
import { expect, test } from 'vitest'
import { wholeFile } from '../driver/guest-transport.ts'
import { connectToServer } from '../testing/ssh-server.ts'
import type { SshConnection } from './connection.ts'
import { openOverSsh, uploadOverSsh } from './files.ts'

test('a guest that never stops printing where the file is gets its channel closed', async () => {
  const closed = Promise.withResolvers<void>()
  const guest = await connectToServer((channel) => {
    const pour = () => {
      while (channel.write(Buffer.alloc(32 * 1024, 'x')));
    }
    channel.on('drain', pour).once('close', closed.resolve).resume()
    pour()
  })
  await expect(uploadOverSsh(guest.connection, '/srv/file', null)).rejects.toMatchObject({ code: 'guest_unavailable' })
  await closed.promise
  guest.close()
})

/** A channel whose other end is the test. */
const manualChannel = () =>
  Object.assign(new Duplex({ read: () => undefined, write: (_bytes, _encoding, done) => done() }), {
    stderr: new PassThrough(),
    close: () => undefined,
  })

test('a file that comes in any number of chunks leaves nothing of each in memory', async () => {
  const channel = manualChannel()
  const openChannel = async (script: string, wrap: (channel: never) => unknown) => {
    channel.push(`dormouse-${/ stream (\w+) /.exec(script)![1]} began 1\n2000000 1-2-3\n`)
    return wrap(channel as never)
  }
  const file = await openOverSsh({ openChannel } as unknown as SshConnection, '/x', wholeFile)
  const readSome = async (pieces: number) => {
    for (let i = 0; i < pieces; i++) {
      channel.push('x')
      await file.read()
    }
  }
  await readSome(1_000)
  const before = usedBytes()
  await readSome(100_000)
  expect(usedBytes() - before).toBeLessThan(4 * 1024 * 1024)
})

test('a program that is missing is brought in, and the file is read then; if it stays missing, that is refused', async () => {
  let isThere = false
  let broughtIn = 0
  const known = 'A'.repeat(68)
  const answer = (channel: ServerChannel, script: string) => {
    const nonce = / stream (\w+) /.exec(script)![1]
    if (isThere) channel.write(`dormouse-${nonce} began 1\n4 1-2-3\nfile`)
    else channel.stderr.write(': No program\n')
    channel.exit(isThere ? 0 : 97)
    channel.end()
  }
  const run = async () => {
    isThere = ++broughtIn === 2
    return { exitCode: 0, signal: undefined, stdout: Buffer.from(`ssh-ed25519 ${known}\n`), stderr: Buffer.alloc(0) }
  }
  const guest = await connectToServer(answer, { agent: { run } })
  await expect(openOverSsh(guest.connection, '/x', wholeFile)).rejects.toMatchObject({ code: 'exec_unsupported' })
  const file = await openOverSsh(guest.connection, '/x', wholeFile)
  expect([(await file.read())?.toString(), broughtIn]).toEqual(['file', 2])
  guest.close()
})
