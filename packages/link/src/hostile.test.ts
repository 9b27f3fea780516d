// Guarantee: whatever the other side of a link sends affects that link only. No process ends, nothing is repeated without a
// limit, and the other side gets no more than its share of the thread.
import { type EventEmitter, once } from 'node:events'
import { createServer } from 'node:http'
import { connect, createServer as createTcpServer } from 'node:net'
import { expect, onTestFinished, test, vi } from 'vitest'
import type { WebSocket } from 'ws'
import { Channel, dialChannel } from './channel.ts'
import { dial } from './dial.ts'
import { CallRefused, ChannelLost } from './errors.ts'
import { shakeHands } from './handshake.ts'
import type { LinkLog } from './link-log.ts'
import { Pace } from './pace.ts'
import { Peer, type PeerOptions } from './peer.ts'
import { openDoors } from './testing/doors.ts'
import { joined, listenOnLoopback, pair } from './testing/pair.ts'
import { acceptUpgrades, UpgradeRefusal } from './upgrades.ts'

const mib = 1024 * 1024
const long = 'A'.repeat(3 * mib)

const stranger = (options: PeerOptions = {}) =>
  joined(
    (socket: WebSocket) => socket,
    (socket) => new Peer(socket, options),
  )

/** The event, which arrives at once or never. */
const soon = (emitter: EventEmitter, event: string) => once(emitter, event, { signal: AbortSignal.timeout(20_000) })

function recordingLog() {
  const lines: string[] = []
  const write = (_fields: object, message: string) => void lines.push(message)
  return { lines, log: { debug: write, warn: write, error: write } satisfies LinkLog }
}

test.each([
  ['a name', `{"n":1,"type":"call","name":"${long}"}`, 'a call frame has no valid "name"'],
  ['an event', `{"n":1,"type":"event","name":"${long}"}`, 'a event frame has no valid "name"'],
  ['a request id', `{"n":1,"type":"call","name":"a","requestId":"${long}"}`, 'a call frame has no valid "requestId"'],
])('%s of megabytes is no frame', async (_what, data, reason) => {
  await using link = await stranger()
  const gone = soon(link.left, 'close')
  link.left.send(data)
  const [code, said] = await gone
  expect([code, String(said)]).toEqual([1002, reason])
})

test('a refusal of megabytes is cut by its sender and by its receiver', async () => {
  const refuse = async () => {
    throw new CallRefused('no_room', long)
  }
  await using link = await pair({ right: { handlers: { refuse } } })
  const error = (await link.left.call('refuse', undefined).catch((thrown) => thrown)) as CallRefused
  expect([error.code, error.detail.length, error.message.length]).toEqual(['no_room', 4_001, 4_010])
  await using other = await stranger()
  const asked = other.right.call('anything', undefined)
  other.left.send(`{"n":1,"type":"refused","to":1,"code":"no_room","detail":"${long}"}`)
  expect(await asked.catch((thrown) => thrown.message.length)).toBe(4_010)
})

test('a bug of ours on a frame ends that link with a reason, and the process continues', async () => {
  const { lines, log } = recordingLog()
  // The answer of a bug is logged: a log that fails is the worst place to fail in.
  const error = () => {
    if (lines.push('tried') === 1) throw new Error('the log is full')
  }
  await using link = await stranger({ log: { ...log, error }, handlers: { bug: () => Promise.reject(new Error()) } })
  const gone = soon(link.left, 'close')
  link.left.send('{"n":1,"type":"call","name":"bug"}')
  const [code, said] = await gone
  expect([code, String(said)]).toEqual([1011, 'this side failed'])
})

test.each([
  ['the one who is dialled', 'server'],
  ['the one who dials', 'client'],
] as const)('a message over the limit is refused by its head, before a byte of it is held: %s', async (_who, side) => {
  // A text frame of 4 MiB and one byte is announced, and nothing of it ever comes.
  const head = Buffer.alloc(10)
  head[0] = 0x81
  head[1] = 127
  head.writeBigUInt64BE(BigInt(4 * mib + 1), 2)
  const heard = side === 'server' ? await saidToServer(head) : await saidToClient(head)
  // A close frame with 1009: too large.
  expect(heard.subarray(-2).readUInt16BE()).toBe(1009)
})

const handshake = [
  'GET / HTTP/1.1',
  'Host: x',
  'Connection: upgrade',
  'Upgrade: websocket',
  'Sec-WebSocket-Version: 13',
]
const key = 'dGhlIHNhbXBsZSBub25jZQ=='

/** What a server responds to the head of a frame; the mask that clients send is zero. */
async function saidToServer(head: Buffer): Promise<Buffer> {
  const server = createServer()
  const upgrades = openDoors(server)
  upgrades.add({ path: () => true, authenticate: () => undefined, onSocket: (socket) => void new Peer(socket) })
  const socket = connect(await listenOnLoopback(server), '127.0.0.1')
  socket.write(`${[...handshake, `Sec-WebSocket-Key: ${key}`].join('\r\n')}\r\n\r\n`)
  await soon(socket, 'data')
  const masked = Buffer.concat([head, Buffer.alloc(4)])
  masked[1]! |= 0x80
  socket.write(masked)
  const [said] = (await soon(socket, 'data')) as [Buffer]
  socket.destroy()
  await upgrades.close()
  server.close()
  return said
}

/** What a dialling peer responds to the head of a frame. */
async function saidToClient(head: Buffer): Promise<Buffer> {
  const heard = Promise.withResolvers<Buffer>()
  const server = createServer()
  const upgrades = openDoors(server)
  upgrades.add({
    path: () => true,
    authenticate: () => undefined,
    onSocket: (_socket, _context, { socket }) => {
      socket.prependListener('data', (said: Buffer) => heard.resolve(Buffer.from(said)))
      socket.write(head)
    },
  })
  const line = dial({
    url: `ws://127.0.0.1:${await listenOnLoopback(server)}/`,
    backoff: { minMs: 10_000, maxMs: 10_000 },
  })
  const said = await heard.promise
  await line.close()
  await upgrades.close()
  server.close()
  // A client masks with zeros, as `openSocket` has it.
  return said
}

test('a channel that breaks before it has listeners affects nothing else', async () => {
  const server = createServer()
  const upgrades = openDoors(server)
  upgrades.add({ path: () => true, authenticate: () => undefined, onSocket: (socket) => socket.send('nonsense') })
  const channel = await dialChannel({ url: `ws://127.0.0.1:${await listenOnLoopback(server)}/` })
  if (!channel.destroyed) await soon(channel, 'close')
  expect(channel.errored).toBeInstanceOf(ChannelLost)
  await upgrades.close()
  server.close()
})

test('a thousand bad frames get one close frame', async () => {
  let listening = 0
  await using link = await joined(
    (socket: WebSocket) => socket,
    (socket) => {
      void shakeHands(socket, {}, () => new Promise<never>(() => {}))
      socket.on('message', () => {
        listening = Math.max(listening, socket.listenerCount('close'))
      })
      return socket
    },
  )
  const gone = soon(link.left, 'close')
  for (let said = 0; said < 1_000; said++) link.left.send('out of turn')
  await gone
  expect(listening).toBeGreaterThan(0)
  expect(listening).toBeLessThan(6)
})

test('a channel accepts no more notes than its bytes allow', async () => {
  await using joint = await joined(
    (socket: WebSocket) => socket,
    (socket) => new Channel(socket),
  )
  const gone = soon(joint.left, 'close')
  for (let notes = 0; notes < 65; notes++) joint.left.send('{"credit":1}')
  const [code, said] = await gone
  expect([code, String(said)]).toEqual([1002, 'more notes than bytes'])
})

test('a pace demands a pause for what exceeds share and burst, of a second at most', () => {
  vi.useFakeTimers({ toFake: ['performance'] })
  onTestFinished(() => void vi.useRealTimers())
  const pace = new Pace(0.25, 50)
  expect(pace.spend(50)).toBe(0)
  expect(pace.spend(100)).toBe(400)
  expect(pace.spend(10_000)).toBe(1_000)
})

test('a side above its share is read more slowly on each link; nothing is lost, and it is logged once', async () => {
  const { lines, log } = recordingLog()
  const spent: number[] = []
  const pace = { spend: (ms: number) => (spent.push(ms) % 10 === 0 ? 5 : 0) } as Pace
  await using link = await pair({ right: { log, pace } })
  await using second = await pair({ right: { log, pace } })
  const heard: unknown[] = []
  const all = Promise.withResolvers<void>()
  for (const { right } of [link, second]) {
    right.on('event', (_name, payload) => void (heard.push(payload) === 200 && all.resolve()))
  }
  for (let told = 0; told < 100; told++) for (const { left } of [link, second]) left.emitEvent('tick', told)
  await all.promise
  expect(heard).toHaveLength(200)
  expect(lines.filter((line) => line.includes('more slowly'))).toHaveLength(2)
})

test('a paused link is not taken for dead, and closes at once', async () => {
  const pace = { spend: (ms: number) => (ms === 0 ? 0 : 60_000) } as Pace
  await using link = await pair({ right: { pace } })
  const heard = soon(link.right, 'event')
  link.left.emitEvent('tick', 1)
  await heard
  const gone = soon(link.left, 'close')
  await link.right.close(4000, 'enough')
  expect(await gone).toEqual(['enough'])
})

test('an upgrade that cannot be refused is disconnected', async () => {
  const { lines, log } = recordingLog()
  const server = createServer()
  const answer = () => {
    throw new Error('no pen')
  }
  acceptUpgrades(server, { log, answer, nowhere: new UpgradeRefusal(404, 'nowhere') })
  const socket = connect(await listenOnLoopback(server), '127.0.0.1')
  socket.write(`${[...handshake, `Sec-WebSocket-Key: ${key}`].join('\r\n')}\r\n\r\n`)
  await soon(socket, 'close')
  expect(lines).toContain('a refused upgrade could not be answered')
  server.close()
})

test('a refusal whose body never ends does not stop a line from redialling', async () => {
  let dialled = 0
  const server = createTcpServer((socket) => {
    dialled++
    const drip = setInterval(() => socket.write('x'), 5)
    socket.on('error', () => undefined).on('close', () => clearInterval(drip))
    socket.write('HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\n\r\n{"detail":"')
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  const line = dial({ url: `ws://127.0.0.1:${port}/`, handshakeTimeoutMs: 1_500, backoff: { minMs: 1, maxMs: 5 } })
  expect(await soon(line, 'refused')).toMatchObject([{ status: 503, detail: undefined }])
  await expect.poll(() => dialled).toBeGreaterThan(1)
  await line.close()
  server.close()
})

test.each([
  ['interim responses', 'HTTP/1.1 102 Processing\r\n\r\n'],
  ['another protocol', 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n'],
  ['a protocol without a name', 'HTTP/1.1 101 Switching Protocols\r\n\r\n'],
])('a server that answers a handshake with %s for ever does not stop a line from redialling', async (_, answer) => {
  let dialled = 0
  const server = createTcpServer((socket) => {
    dialled++
    const drip = setInterval(() => socket.write(answer), 5)
    socket.on('error', () => undefined).on('close', () => clearInterval(drip))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = `ws://127.0.0.1:${(server.address() as { port: number }).port}/`
  const line = dial({ url, handshakeTimeoutMs: 300, backoff: { minMs: 1, maxMs: 5 } })
  await expect.poll(() => dialled).toBeGreaterThan(1)
  await line.close()
  server.close()
})

test('a failing listener does not stop a line', async () => {
  const { lines, log } = recordingLog()
  const line = dial({ url: 'ws://127.0.0.1:9/', log, backoff: { minMs: 1, maxMs: 2 } })
  line.once('refused', () => {
    throw new Error('a bug in a listener')
  })
  await expect.poll(() => lines).toContain('a listener of a line failed')
  await soon(line, 'refused')
  await line.close()
})
