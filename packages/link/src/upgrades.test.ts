// Guarantee: which upgrade requests are accepted, and what the others get.
import { once } from 'node:events'
import { createServer, request } from 'node:http'
import type { Socket } from 'node:net'
import { json } from 'node:stream/consumers'
import { expect, test } from 'vitest'
import { Channel, dialChannel } from './channel.ts'
import { DialRefused } from './errors.ts'
import type { LinkLog } from './link-log.ts'
import { openDoors } from './testing/doors.ts'
import { listenOnLoopback } from './testing/pair.ts'
import { UpgradeRefusal, type UpgradeRoute } from './upgrades.ts'

const open: UpgradeRoute<undefined> = {
  path: (pathname) => pathname === '/open',
  authenticate: () => undefined,
  onSocket: (socket) => new Channel(socket).end('hello'),
}

async function serve(route: Partial<UpgradeRoute<unknown>> = {}, log?: LinkLog) {
  const server = createServer((_request, response) => response.end('plain'))
  const upgrades = openDoors(server, log)
  upgrades.add({ ...open, path: (pathname) => pathname === '/other' })
  upgrades.add({ ...open, ...route } as UpgradeRoute<unknown>)
  const port = await listenOnLoopback(server)
  const close = async () => {
    await upgrades.close()
    server.close()
  }
  return { port, upgrades, url: `ws://127.0.0.1:${port}/open`, [Symbol.asyncDispose]: close }
}

const refusalAt = async (url: string) => {
  const error = await dialChannel({ url }).catch((thrown: unknown) => thrown)
  expect(error).toBeInstanceOf(DialRefused)
  return error as DialRefused
}

test('the context that authenticate made arrives with the socket', async () => {
  const arrived = Promise.withResolvers<unknown>()
  await using there = await serve({
    authenticate: async ({ headers }) => ({ host: headers['x-host'] }),
    onSocket: (socket, context) => {
      arrived.resolve(context)
      socket.close()
    },
  })
  const channel = await dialChannel({ url: there.url, headers: () => ({ 'x-host': 'h-1' }) })
  channel.on('error', () => {})
  expect(await arrived.promise).toEqual({ host: 'h-1' })
})

test('plain HTTP on the same server still works', async () => {
  await using there = await serve()
  expect(await (await fetch(`http://127.0.0.1:${there.port}/open`)).text()).toBe('plain')
})

test('a refusal is an HTTP response with problem body and headers, before any upgrade', async () => {
  await using there = await serve({
    authenticate: () => new UpgradeRefusal(401, 'the token is stale', { 'www-authenticate': 'Bearer' }),
  })
  const asked = request({
    port: there.port,
    path: '/open',
    headers: { connection: 'upgrade', upgrade: 'websocket', 'sec-websocket-version': '13', 'sec-websocket-key': 'x' },
  })
  asked.end()
  const [response] = await once(asked, 'response')
  expect(response.statusCode).toBe(401)
  expect(response.headers).toMatchObject({ 'www-authenticate': 'Bearer', 'content-type': 'application/problem+json' })
  expect(await json(response)).toEqual({
    type: 'about:blank',
    title: 'Unauthorized',
    status: 401,
    detail: 'the token is stale',
  })
})

test('a path without a route is 404', async () => {
  await using there = await serve()
  expect(await refusalAt(`ws://127.0.0.1:${there.port}/elsewhere`)).toMatchObject({ status: 404 })
})

test('a bug in a route is a bare 500, and its error stays in the log', async () => {
  const logged: object[] = []
  const note = (fields: object) => void logged.push(fields)
  const broken = () => {
    throw new Error('secret')
  }
  await using there = await serve({ authenticate: broken }, { debug: note, warn: note, error: note })
  const refusal = await refusalAt(there.url)
  expect(refusal).toMatchObject({ status: 500 })
  expect(refusal.message).not.toContain('secret')
  expect(logged).toEqual([{ err: expect.objectContaining({ message: 'secret' }) }])
})

test('a closing server closes open sockets and refuses new ones with 503', async () => {
  await using there = await serve({ onSocket: (socket) => void new Channel(socket).on('error', () => {}) })
  const channel = await dialChannel({ url: there.url })
  const broken = once(channel, 'error')
  await there.upgrades.close(1001, 'going away')
  expect(await broken).toMatchObject([{ closeCode: 1001, reason: 'going away' }])
  expect(await refusalAt(there.url)).toMatchObject({ status: 503 })
})

/** The head of a frame of this many bytes, masked with zeros. */
function frameHead(bytes: number): Buffer {
  const head = Buffer.alloc(14)
  head.set([0x82, 0x80 | 127])
  head.writeBigUInt64BE(BigInt(bytes), 2)
  return head
}

/** An upgraded connection on which any bytes can be sent, and the code of the close frame that comes. */
async function rawSocket(port: number) {
  const headers = { connection: 'Upgrade', upgrade: 'websocket', 'sec-websocket-version': '13' }
  const asked = request({
    port,
    path: '/open',
    headers: { ...headers, 'sec-websocket-key': 'AAAAAAAAAAAAAAAAAAAAAA==' },
  })
  asked.end()
  const [, socket] = (await once(asked, 'upgrade')) as [unknown, Socket]
  socket.on('error', () => undefined)
  const closed = Promise.withResolvers<number>()
  socket.on('data', (bytes: Buffer) => bytes[0] === 0x88 && closed.resolve(bytes.readUInt16BE(2)))
  return { socket, closed: closed.promise }
}

test('a message that is longer than its route allows closes the socket by its head', async () => {
  await using there = await serve({ maxFrameBytes: 100_000, onSocket: () => undefined })
  const { socket, closed } = await rawSocket(there.port)
  socket.write(frameHead(100_001))
  expect(await closed).toBe(1009)
  socket.destroy()
})

test('what is sent of messages that are not whole is counted, until they are, and closes the socket above the limit', async () => {
  let [held, most, limit] = [0, 0, Infinity]
  const messages: number[] = []
  const hold = (_request: unknown, bytes: number): Disposable => {
    if (held + bytes > limit) throw new Error('above the limit')
    held += bytes
    most = Math.max(most, held)
    const giveBack = () => {
      held -= bytes
    }
    return { [Symbol.dispose]: giveBack }
  }
  await using there = await serve({
    ...{ maxFrameBytes: 4_000_000, hold },
    onSocket: (socket) => socket.on('message', (data) => messages.push((data as Buffer).length)),
  })
  const { socket, closed } = await rawSocket(there.port)
  socket.write(Buffer.concat([frameHead(1_000_000), Buffer.alloc(999_999)]))
  await expect.poll(() => held).toBeGreaterThan(950_000)
  socket.write(Buffer.alloc(1))
  await expect.poll(() => messages).toEqual([1_000_000])
  expect(held).toBe(0)
  // Small whole messages and pongs hold nothing.
  most = 0
  for (let i = 0; i < 1_000; i++)
    socket.write(
      Buffer.concat([Buffer.from([0x82, 0x84, 0, 0, 0, 0]), Buffer.alloc(4), Buffer.from([0x8a, 0x80, 0, 0, 0, 0])]),
    )
  await expect.poll(() => messages.length).toBe(1_001)
  expect(held).toBe(0)
  limit = 300_000
  socket.write(Buffer.concat([frameHead(1_000_000), Buffer.alloc(999_999)]))
  expect(await closed).toBe(1013)
  await expect.poll(() => held).toBe(0)
  expect(most).toBeLessThanOrEqual(limit)
  socket.destroy()
})

test('a client that leaves in the middle of a message holds nothing any more', async () => {
  let held = 0
  const hold = (_request: unknown, bytes: number): Disposable => {
    held += bytes
    const giveBack = () => {
      held -= bytes
    }
    return { [Symbol.dispose]: giveBack }
  }
  await using there = await serve({ hold, onSocket: () => undefined })
  const { socket } = await rawSocket(there.port)
  socket.write(Buffer.concat([frameHead(1_000_000), Buffer.alloc(500_000)]))
  await expect.poll(() => held).toBeGreaterThan(450_000)
  socket.destroy()
  await expect.poll(() => held).toBe(0)
})
