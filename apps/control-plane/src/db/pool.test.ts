// Guarantee: a connection that Postgres ends while it is being opened is an error of that call, not of the process.
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { expect, test } from 'vitest'
import { openPool, openSession } from './pool.ts'
import { transaction } from './transactions.ts'

/** One message of Postgres' protocol. */
function message(type: string, body: Buffer): Buffer {
  const length = Buffer.alloc(4)
  length.writeInt32BE(4 + body.length)
  return Buffer.concat([Buffer.from(type), length, body])
}

test.each([
  ['session', (url: string) => openSession(url, 'leadership')],
  [
    'transaction',
    (url: string) =>
      transaction(
        openPool(url, 1, () => undefined),
        async () => 'never',
      ),
  ],
])(
  'a %s whose connection is ended in the packet that accepts it is rejected, and the process goes on',
  async (_, open) => {
    const welcome = message('R', Buffer.alloc(4))
    const ready = message('Z', Buffer.from('I'))
    const ended = message('E', Buffer.from('SFATAL\0C57P01\0Mterminating connection\0\0'))
    const server = createServer((socket) => {
      socket.on('error', () => undefined)
      socket.once('data', () => socket.end(Buffer.concat([welcome, ready, ended])))
    })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    await expect(open(`postgres://user:word@127.0.0.1:${port}/none`)).rejects.toThrow(/terminat|connection error/)
    server.close()
  },
)
