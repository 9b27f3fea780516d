// Guarantee: a screen's bytes arrive unchanged, although the memory of sent bytes is released; each side's end ends the other; and
// whatever ends a client, what it holds down is released.
import { once } from 'node:events'
import { type Duplex, duplexPair } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { newId, type StreamClaim } from '@dormouse/contract'
import { Channel } from '@dormouse/link'
import { joined } from '@dormouse/link/testing'
import { createLog } from '@dormouse/process'
import { expect, test } from 'vitest'
import { ScreenClients } from './screen-clients.ts'

const log = createLog({ name: 'test', level: 'silent' })
const channels = () =>
  joined(
    (socket) => new Channel(socket, { windowBytes: 100_000 }),
    (socket) => new Channel(socket, { windowBytes: 100_000 }),
  )
const greeting = Buffer.from('RFB 003.008\n\x01\x01', 'latin1')
const shift = (down: boolean) => Buffer.from([255, 0, 0, down ? 1 : 0, 0, 0, 0xff, 0xe1, 0, 0, 0, 42])
const button = (mask: number) => Buffer.from([5, mask, 0, 3, 0, 4])
const held = Buffer.concat([greeting, shift(true), button(1)])
const released = Buffer.concat([shift(false), button(0)])

async function read(stream: Duplex, bytes: number): Promise<Buffer> {
  let all = Buffer.alloc(0)
  while (all.length < bytes) {
    const piece = stream.read()
    if (piece) all = Buffer.concat([all, piece])
    else await once(stream, 'readable')
  }
  return all
}

/** A client that holds Shift and a button. */
async function holding(clients: ScreenClients, desktopId: string, claim: StreamClaim = 'control') {
  const way = await channels()
  const [screen, qemu] = duplexPair()
  const over = clients.join({ desktopId, claim }, screen, way.left, log)
  way.right.write(held)
  expect(await read(qemu, held.length)).toEqual(held)
  return { way, qemu, over, [Symbol.asyncDispose]: () => way[Symbol.asyncDispose]() }
}

test('chunks of any size arrive whole, in both directions, also with a slow reader', async () => {
  await using way = await channels()
  const [screen, qemu] = duplexPair()
  const over = new ScreenClients().join({ claim: 'view', desktopId: newId() }, screen, way.left, log)
  const said = Array.from({ length: 60 }, (_, i) => Buffer.alloc(i % 3 === 0 ? 65_536 : 1_000 + i, i))
  const whole = Buffer.concat(said)
  for (const piece of said) qemu.write(piece)
  way.right.write(greeting)
  expect(await read(qemu, greeting.length)).toEqual(greeting)
  expect((await read(way.right, whole.length)).equals(whole)).toBe(true)
  way.right.destroy()
  qemu.on('end', () => qemu.end()).resume()
  await over
  expect(screen.destroyed).toBe(true)
})

test('a screen that ends, ends its channel', async () => {
  await using way = await channels()
  const [screen, qemu] = duplexPair()
  const over = new ScreenClients().join({ claim: 'view', desktopId: newId() }, screen, way.left, log)
  qemu.end()
  expect((await buffer(way.right)).length).toBe(0)
  way.right.destroy()
  await over
})

test('a client that leaves releases what it holds, before its connection ends', async () => {
  await using client = await holding(new ScreenClients(), newId())
  client.way.right.destroy()
  expect(await buffer(client.qemu)).toEqual(released)
  client.qemu.end()
  await client.over
})

test('a batch begins with nothing pressed, and the connection of a client that leaves stays until it has ended', async () => {
  const [clients, desktopId] = [new ScreenClients(), newId()]
  await using client = await holding(clients, desktopId)
  const batch = await clients.beginBatch(desktopId, { supersedes: false })
  expect(await read(client.qemu, released.length)).toEqual(released)
  client.way.right.write(Buffer.concat([shift(true), shift(false), shift(true)]))
  expect(await read(client.qemu, shift(true).length)).toEqual(shift(true))
  client.way.right.destroy()
  expect(await read(client.qemu, shift(false).length)).toEqual(shift(false))
  expect(client.qemu.readableEnded).toBe(false)
  batch[Symbol.dispose]()
  expect(await buffer(client.qemu)).toEqual(Buffer.alloc(0))
  client.qemu.end()
  await client.over
})

const request = Buffer.from([3, 1, 0, 0, 0, 0, 0, 16, 0, 16])
test.each(['a batch of another client', 'a screen of another client', 'a sleep'] as const)(
  '%s releases what a client holds, and takes its input',
  async (what) => {
    const [clients, desktopId] = [new ScreenClients(), newId()]
    await using client = await holding(clients, desktopId)
    await using other = what === 'a screen of another client' ? await holding(clients, desktopId) : undefined
    using _batch =
      what === 'a batch of another client' ? await clients.beginBatch(desktopId, { supersedes: true }) : undefined
    using sleep = what === 'a sleep' ? await clients.hold(desktopId) : undefined
    expect(await read(client.qemu, released.length)).toEqual(released)
    client.way.right.write(Buffer.concat([shift(false), shift(true), button(1), request]))
    expect(await read(client.qemu, request.length)).toEqual(request)
    sleep?.[Symbol.dispose]()
    if (!sleep) return
    client.way.right.write(shift(true))
    expect(await read(client.qemu, shift(true).length)).toEqual(shift(true))
    expect(other).toBeUndefined()
  },
)

test('a screen that is opened only to be seen takes nothing from the one that controls', async () => {
  const [clients, desktopId] = [new ScreenClients(), newId()]
  await using client = await holding(clients, desktopId)
  await using _viewer = await holding(clients, desktopId, 'view')
  client.way.right.write(shift(false))
  expect(await read(client.qemu, shift(false).length)).toEqual(shift(false))
})
