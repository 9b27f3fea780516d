/** Streams: all bytes in order or an error, never silently less; a slow reader holds up no other call. */
import { buffer } from 'node:stream/consumers'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { Calls } from './calls.ts'
import { FakeDaemon, Refusal, until } from './testing/fake-daemon.ts'

const ok = 0
const error = 1
const more = 2
const volume = { pool: 'p', name: 'v', key: '/p/v' }
const range = { volume, offset: 0n, length: 0n, flags: 0 }
const packet = Buffer.alloc(64 * 1024, 'x')
const nothing = Buffer.alloc(0)
/** An error body: code 38, a message, nothing else. */
const refusal = Buffer.from(
  '00000026000000070000000100000003626164000000000200000000000000000000000000000000000000000000000000000000',
  'hex',
)

let daemon: FakeDaemon
let calls: Calls

beforeEach(async () => {
  daemon = await FakeDaemon.start()
  const address = { socketPath: daemon.socketPath }
  calls = new Calls({ address, uri: 'test:///default', openTimeoutMs: 30_000, keepaliveMs: 1_000 })
})

afterEach(async () => {
  calls.close()
  await daemon[Symbol.asyncDispose]()
})

/** Sends these packets behind the reply to a download. */
function downloads(packets: [status: number, body: Buffer][]): void {
  daemon.answer('storageVolDownload', (_args, client, frame) => {
    setImmediate(() => {
      for (const [status, body] of packets) client.sendStream(frame, status, body)
    })
    return {}
  })
  daemon.onStream = (client, frame) => {
    client.stream.push(frame)
    if (frame.status === ok) client.sendStream(frame, ok, nothing)
  }
}

async function downloaded(): Promise<Buffer> {
  return buffer((await calls.download('storageVolDownload', range)).stream)
}

describe('a download', () => {
  test('ends after the daemon’s end of file is confirmed, and closes its connection', async () => {
    downloads([
      [more, Buffer.from('abcd')],
      [more, Buffer.from('efgh')],
      [more, nothing],
    ])
    expect((await downloaded()).toString()).toBe('abcdefgh')
    await until(() => daemon.open.length === 0)
  })

  test('fails with the daemon’s error, also after bytes have come', async () => {
    downloads([
      [more, packet],
      [error, refusal],
    ])
    await expect(downloaded()).rejects.toMatchObject({ name: 'LibvirtError', code: 38, message: 'bad' })
  })

  test('fails when the connection breaks before the end of file', async () => {
    downloads([[more, packet]])
    const { stream } = await calls.download('storageVolDownload', range)
    stream.once('data', () => daemon.clients[0]?.drop())
    await expect(buffer(stream)).rejects.toMatchObject({ name: 'ConnectionLost', sent: true })
  })

  test('that is refused leaves no connection behind', async () => {
    daemon.answer('storageVolDownload', () => {
      throw new Refusal(50, 'no such volume')
    })
    await expect(downloaded()).rejects.toMatchObject({ code: 50 })
    await until(() => daemon.open.length === 0)
  })

  test('leaves in the socket what nobody reads, and goes on when somebody does', async () => {
    downloads([...Array.from({ length: 200 }, (): [number, Buffer] => [more, packet]), [more, nothing]])
    const { stream } = await calls.download('storageVolDownload', range)
    await until(() => stream.readableLength >= stream.readableHighWaterMark)
    expect(stream.readableLength).toBeLessThan(200 * packet.length)
    expect((await buffer(stream)).length).toBe(200 * packet.length)
  })

  test('destroyed half-way closes its connection', async () => {
    downloads([[more, packet]])
    const { stream } = await calls.download('storageVolDownload', range)
    stream.destroy()
    await until(() => daemon.open.length === 0)
  })
})
