// Guarantee: between sockets, bytes arrive as they were sent, even if the receiver is slow, and the memory of each chunk is
// freed once it is written.
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { BytePace } from '@dormouse/process'
import { expect, test } from 'vitest'
import { until } from '../testing/bench.ts'
import { pump } from './pump.ts'

/** The two ends of a connection. */
async function pair(): Promise<[Socket, Socket]> {
  const server = createServer({ allowHalfOpen: true })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const near = connect({ port: (server.address() as AddressInfo).port, host: '127.0.0.1', allowHalfOpen: true })
  const [far] = (await once(server, 'connection')) as [Socket]
  server.close()
  return [near, far]
}

const hash = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex')

test('bytes arrive whole at a slow receiver, and chunks are freed', async () => {
  const [[source, from], [to, receiver]] = await Promise.all([pair(), pair()])
  const chunks: Buffer[] = []
  from.on('data', (chunk: Buffer) => chunks.push(chunk))
  const options = { pace: new BytePace(undefined), stallMs: 60_000, count: () => undefined }
  pump(from, to, {
    ...options,
    fail: (error) => {
      throw error
    },
  })
  const bytes = randomBytes(16 * 1024 * 1024)
  source.end(bytes)
  await until(() => from.isPaused())
  const received = createHash('sha256')
  for await (const chunk of receiver) received.update(chunk as Buffer)
  expect(received.digest('hex')).toBe(hash(bytes))
  const left = chunks.filter(({ buffer }) => buffer instanceof ArrayBuffer && !buffer.detached)
  expect(left.length).toBeLessThan(chunks.length / 10)
  for (const socket of [source, from, to, receiver]) socket.destroy()
})
