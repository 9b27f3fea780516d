// Guarantee: a transfer takes streams between two agents whole, with their half closes; accepts only a host with the move's
// key; and ends altogether when a stream is cut, when the other side is silent, and when its bytes are not taken.
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { type Duplex, duplexPair } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { newId } from '@dormouse/contract'
import { BytePace, createLog } from '@dormouse/process'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { until } from '../testing/bench.ts'
import { DialledTransfer, type Route } from './dial.ts'
import { MoveListener } from './listener.ts'
import type { MoveTransfer } from './transfer.ts'

const log = createLog({ name: 'transfer', level: 'silent' })
const unlimited = new BytePace(undefined)
const patient = { beatMs: 100, silentMs: 60_000, stallMs: 60_000 }
const listen = { host: '127.0.0.1', port: 0 }

let listener: MoveListener
let moveId: string
let key: Buffer
let arrived: [name: string, stream: Duplex][]
const dialled: MoveTransfer[] = []

beforeEach(() => {
  listener = new MoveListener({ listen, pace: unlimited, log, times: patient })
  moveId = newId()
  key = randomBytes(32)
  arrived = []
})
afterEach(() => {
  for (const transfer of dialled.splice(0)) transfer.end()
  listener.close()
})

const expected = () =>
  listener.expect({ moveId, key, onStream: (name, stream, transfer) => arrived.push([name, transfer.keep(stream)]) })

async function expectMove() {
  const { transfer, address } = await expected()
  return { transfer, address: address! }
}

async function dial(route: Route, given: { moveId?: string; key?: Buffer; times?: typeof patient } = {}) {
  const options = { route, moveId, key, pace: unlimited, log, times: patient, signal: AbortSignal.timeout(60_000) }
  const transfer = await DialledTransfer.open({ ...options, ...given })
  dialled.push(transfer)
  return transfer
}

/** Both ends, and a stream between them: what is written to `near` is read from `far`. */
async function joined() {
  const there = await expectMove()
  const here = await dial(there.address)
  const [near, nearInside] = duplexPair()
  here.join(nearInside, await here.open('memory'))
  const [, stream] = await until(() => arrived[0])
  const [far, farInside] = duplexPair()
  there.transfer.join(farInside, stream)
  return { here, there: there.transfer, near, far }
}

test('bytes and half closes pass in both directions', async () => {
  const { here, near, far } = await joined()
  const bytes = randomBytes(4 * 1024 * 1024)
  const hash = (of: Buffer) => createHash('sha256').update(of).digest('hex')
  const taken = buffer(far)
  near.end(bytes)
  expect(hash(await taken)).toBe(hash(bytes))
  // The other direction is still open.
  const answered = buffer(near)
  far.end('thanks')
  expect(String(await answered)).toBe('thanks')
  expect(here.ended.aborted).toBe(false)
  expect(here.bytes).toBe(bytes.length + 6)
})

test('no connection is accepted without the key, for another move or once it has ended', async () => {
  const { address, transfer } = await expectMove()
  for (const wrong of [{ key: randomBytes(32) }, { moveId: newId() }, { moveId: `${moveId}/..` }]) {
    await expect(dial(address, wrong)).rejects.toMatchObject({ code: 'hypervisor_failed' })
  }
  expect(transfer.ended.aborted).toBe(false)
  const here = await dial(address)
  await expect(here.open('Not a name')).rejects.toMatchObject({ code: 'hypervisor_failed' })
  transfer.end()
  // Nothing listens any more, or what listens closes it.
  await expect(dial(address)).rejects.toMatchObject({
    code: expect.stringMatching(/move_unreachable|hypervisor_failed/),
  })
})

test('a host that cannot be reached is named so', async () => {
  const { address, transfer } = await expectMove()
  transfer.end()
  await until(async () => (await dial(address).catch((error) => error)).code === 'move_unreachable')
})

test('a replay of all that a host once sent opens nothing', async () => {
  const { address } = await expectMove()
  const recorded: Buffer[] = []
  const proxy = createServer((client) => {
    const server = connect(address)
    client
      .on('data', (bytes: Buffer) => recorded.push(bytes))
      .pipe(server)
      .pipe(client)
    for (const socket of [client, server]) socket.on('error', () => undefined)
  })
  await once(proxy.listen(0, '127.0.0.1'), 'listening')
  const here = await dial({ host: '127.0.0.1', port: (proxy.address() as AddressInfo).port })
  await here.open('memory')
  await until(() => arrived.length === 1)
  const replayed = connect(address)
  replayed.on('error', () => undefined).resume()
  replayed.write(Buffer.concat(recorded))
  await until(() => replayed.closed)
  expect(arrived).toHaveLength(1)
  expect(here.ended.aborted).toBe(false)
  here.end()
  proxy.close()
})

test('a key counts for its own move alone', async () => {
  const { address } = await expectMove()
  const other = { moveId: newId(), key: randomBytes(32) }
  await listener.expect({ ...other, onStream: () => undefined })
  await expect(dial(address, { moveId: other.moveId })).rejects.toMatchObject({ code: 'hypervisor_failed' })
  await expect(dial(address, { key: other.key })).rejects.toMatchObject({ code: 'hypervisor_failed' })
})

test('it listens only while a move is expected', async () => {
  const { address, transfer } = await expectMove()
  transfer.end()
  const refused = () =>
    new Promise<boolean>((resolve) => {
      const socket = connect(address)
      socket.on('error', () => resolve(true)).on('connect', () => resolve(false))
      socket.on('connect', () => socket.destroy())
    })
  await until(refused)
  expect((await expectMove()).transfer.ended.aborted).toBe(false)
})

/** Connections that are open on both sides, as a relay joins them; `cut` ends one of them. */
function relayOf(connections = 3) {
  const pairs = Array.from({ length: connections }, () => duplexPair())
  return { ours: pairs.map(([one]) => one), theirs: pairs.map(([, other]) => other) }
}

test('without an address a host is dialled nowhere, and streams pass over a relay', async () => {
  listener = new MoveListener({ listen: undefined, pace: unlimited, log, times: patient })
  const { transfer, address } = await expected()
  expect(address).toBeNull()
  const { ours, theirs } = relayOf()
  listener.relay(moveId, theirs)
  const here = await dial(ours)
  const [near, nearInside] = duplexPair()
  here.join(nearInside, await here.open('memory'))
  const [, stream] = await until(() => arrived[0])
  const [far, farInside] = duplexPair()
  transfer.join(farInside, stream)
  const bytes = randomBytes(4 * 1024 * 1024)
  const taken = buffer(far)
  near.end(bytes)
  expect((await taken).equals(bytes)).toBe(true)
  const answered = buffer(near)
  far.end('thanks')
  expect(String(await answered)).toBe('thanks')
  // The third connection is free, and a fourth stream has none.
  await here.open('disk')
  await expect(here.open('more')).rejects.toMatchObject({ code: 'hypervisor_failed' })
})

test('over a relay, too, only the move’s key opens a stream, and a connection that is cut ends all', async () => {
  const { transfer } = await expected()
  const wrong = relayOf()
  listener.relay(moveId, wrong.theirs)
  await expect(dial(wrong.ours, { key: randomBytes(32) })).rejects.toMatchObject({ code: 'hypervisor_failed' })
  const { transfer: again } = await expected()
  expect(transfer.ended.aborted).toBe(true)
  const { ours, theirs } = relayOf()
  listener.relay(moveId, theirs)
  const here = await dial(ours)
  theirs[2]!.destroy(new Error('cut'))
  await until(() => again.ended.aborted && here.ended.aborted)
  expect([...ours, ...theirs].every(({ destroyed }) => destroyed)).toBe(true)
  const late = relayOf()
  listener.relay(moveId, late.theirs)
  expect(late.theirs.every(({ destroyed }) => destroyed)).toBe(true)
})

test('connections that prove nothing are few, and keep no other one out', async () => {
  const { address } = await expectMove()
  const sockets: Socket[] = []
  for (let i = 0; i < 40; i++) {
    const socket = connect(address)
    socket.on('error', () => undefined)
    sockets.push(socket)
    await once(socket, 'connect')
    if (i % 3 === 0) socket.write(randomBytes(200))
    if (i % 3 === 1) socket.write(Buffer.from('16030100ff010000fb0303', 'hex'))
  }
  await until(() => sockets.filter((socket) => socket.closed).length >= 8)
  const here = await dial(address)
  expect((await here.open('memory')).encrypted).toBe(true)
  for (const socket of sockets) socket.destroy()
})

test('an address that connects all the time keeps no other one out', async () => {
  const { address } = await expectMove()
  const sockets: Socket[] = []
  let closed = 0
  const flood = () => {
    const socket = connect({ ...address, localAddress: '127.0.0.2' })
    socket.on('error', () => undefined).resume()
    socket.once('close', () => {
      closed++
      if (closed < 1_000) flood()
    })
    sockets.push(socket)
  }
  for (let i = 0; i < 20; i++) flood()
  await until(() => closed > 200)
  const here = await dial(address)
  expect((await here.open('memory')).encrypted).toBe(true)
  closed = Number.POSITIVE_INFINITY
  for (const socket of sockets) socket.destroy()
})

test('more streams than a move has end it', async () => {
  const { address, transfer } = await expectMove()
  const here = await dial(address)
  const opened = Array.from({ length: 20 }, () => here.open('memory').catch(() => undefined))
  await Promise.all(opened)
  await until(() => transfer.ended.aborted && here.ended.aborted)
})

test('when one stream is cut, all of both sides end', async () => {
  const { here, there } = await joined()
  arrived[0]![1].destroy()
  await until(() => here.ended.aborted && there.ended.aborted)
})

test('an end of one side is noticed by the other', async () => {
  const { here, there } = await joined()
  here.end()
  await until(() => there.ended.aborted)
  // The system may report the end of the connection as an error of it.
  expect(String(there.ended.reason)).toMatch(/other host|ECONNRESET/)
})

test('a side that is silent counts as lost', async () => {
  const times = { beatMs: 20, silentMs: 200, stallMs: 60_000 }
  // The listener's beats are too rare for that side.
  listener = new MoveListener({ listen, pace: unlimited, log, times: { ...patient, beatMs: 60_000 } })
  const { address } = await expectMove()
  const here = await dial(address, { times })
  await until(() => here.ended.aborted)
  expect(String(here.ended.reason)).toMatch(/silent/)
})

test('bytes that are not taken end the transfer', async () => {
  const { address } = await expectMove()
  const here = await dial(address, { times: { ...patient, stallMs: 200 } })
  const [near, inside] = duplexPair()
  near.on('error', () => undefined)
  here.join(inside, await here.open('memory'))
  await until(() => arrived[0])
  for (let i = 0; i < 64; i++) near.write(Buffer.alloc(1024 * 1024))
  await until(() => here.ended.aborted)
  expect(String(here.ended.reason)).toMatch(/nothing was taken/)
})

test('a pace is shared by all streams, and exact on average', () => {
  const pace = new BytePace(10)
  expect(pace.spend(1024)).toBe(0)
  const waits = Array.from({ length: 10 }, () => pace.spend(1024 * 1024))
  // A MiB takes 100 ms; the time that this test takes is its own.
  expect(waits.at(-1)).toBeGreaterThan(500)
  expect(waits.at(-1)).toBeLessThanOrEqual(1_001)
  expect(unlimited.spend(2 ** 40)).toBe(0)
})
