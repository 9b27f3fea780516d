// Guarantee: a request body takes no more memory than its bytes, in however small pieces a client sends it.
import { once } from 'node:events'
import { createServer, type IncomingMessage } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { pipeline } from 'node:stream/promises'
import { usedBytes } from '@dormouse/process/testing'
import { expect, test } from 'vitest'
import { BoundedBody } from './bounded-body.ts'

const mib = 1024 * 1024
const piecesAtOnce = 64 * 1024

test('a body in pieces of one byte takes the memory of its bytes', async () => {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1')
  const requested = once(server, 'request') as Promise<[IncomingMessage]>
  const pieces = Buffer.from('1\r\nX\r\n'.repeat(piecesAtOnce))
  const sending = pipeline(async function* () {
    yield Buffer.from('POST / HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\n')
    for (let sent = 0; sent < mib; sent += piecesAtOnce) yield pieces
    yield Buffer.from('0\r\n\r\n')
  }, client)
  const [request] = await requested
  const before = usedBytes()
  let [count, most] = [0, 0]
  const body = await new BoundedBody(request, { maxBytes: mib, stallMs: 60_000 }).bytes(() => {
    if (++count % piecesAtOnce === 0) most = Math.max(most, usedBytes() - before)
  })
  await sending
  server.close()
  expect([count, body.equals(Buffer.alloc(mib, 'X'))]).toEqual([mib, true])
  // One object for each piece would be 240 MiB.
  expect(most).toBeLessThan(100 * mib)
})
