// Guarantee: a viewer that does not read stops its screen, nothing piles up in between, and one that is gone is noticed.
import { once } from 'node:events'
import { Channel } from '@dormouse/link'
import { joined } from '@dormouse/link/testing'
import { afterEach, expect, test, vi } from 'vitest'
import { pingClient, relay, sendPulses } from './relay.ts'
import { RfbFilter } from './rfb-filter.ts'
import { SocketPause, throttle } from './throttle.ts'

const pieceBytes = 64 * 1024
const windowBytes = 1024 * 1024
/** More than the network's own buffers hold on all the ways together. */
const pieces = 1_024
const timeoutMs = 30_000

afterEach(() => {
  vi.useRealTimers()
})

const viewerAndSocket = () =>
  joined(
    (socket) => socket,
    (socket) => socket,
  )

test(
  'a viewer that never reads holds one piece in its socket and a window in its channel, and gets all once it reads',
  async () => {
    await using way = await joined(
      (socket) => new Channel(socket, { windowBytes }),
      (socket) => new Channel(socket, { windowBytes }),
    )
    await using door = await joined(
      (socket) => socket,
      (socket) => socket,
    )
    const { left: host, right: screen } = way
    const { left: viewer, right: socket } = door
    const most = { socket: 0, channel: 0 }
    const look = () => {
      most.socket = Math.max(most.socket, socket.bufferedAmount)
      most.channel = Math.max(most.channel, screen.readableLength)
    }
    viewer.pause()
    const over = relay(socket, screen, { fromClient: new RfbFilter('control'), fromScreen: undefined })
    for (let i = 0; i < pieces; i++) host.write(Buffer.alloc(pieceBytes, i))
    const stands = () => socket.bufferedAmount > 0 && screen.readableLength >= windowBytes / 2
    await expect.poll(stands, { timeout: timeoutMs }).toBe(true)
    look()
    expect(host.writableLength).toBeGreaterThan(0)

    let received = 0
    const all = Promise.withResolvers<void>()
    viewer.on('message', (data: Buffer) => {
      look()
      received += data.length
      if (received === pieces * pieceBytes) all.resolve()
    })
    viewer.resume()
    await all.promise
    // Each piece has a head of a WebSocket's before it.
    expect(most.socket).toBeLessThanOrEqual(pieceBytes + 16)
    expect(most.channel).toBeLessThanOrEqual(windowBytes)
    // The viewer leaves, and the host gets the close.
    const lost = once(host, 'error')
    viewer.close()
    await over
    await lost
  },
  timeoutMs,
)

test('a viewer that says more than hands and programs need is heard in part each second, and all of it in the end', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  await using door = await viewerAndSocket()
  const { left: viewer, right: socket } = door
  let heard = 0
  socket.on('message', () => heard++)
  throttle(socket, new SocketPause(socket))
  for (let said = 0; said < 100_000; said++) viewer.send(Buffer.alloc(8))
  await expect.poll(() => socket.isPaused, { timeout: timeoutMs }).toBe(true)
  expect(heard).toBeGreaterThanOrEqual(4_000)
  // What was read from the network before is passed on, and no more.
  expect(heard).toBeLessThan(50_000)
  for (let turn = 0; heard < 100_000 && turn < 100; turn++) {
    vi.advanceTimersByTime(1_000)
    await expect.poll(() => socket.isPaused || heard === 100_000, { timeout: timeoutMs }).toBe(true)
  }
  expect(heard).toBe(100_000)
})

test('a viewer is asked for a sign of life every 15 s, and hung up on after three turns without one', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  await using door = await viewerAndSocket()
  const { left: viewer, right: socket } = door
  pingClient(socket)
  for (let turn = 0; turn < 4; turn++) {
    vi.advanceTimersByTime(15_000)
    await once(socket, 'pong')
  }
  // It is there, and sends nothing.
  viewer.pause()
  const closed = once(socket, 'close')
  for (let turn = 0; turn < 3; turn++) {
    expect(socket.readyState).toBe(socket.OPEN)
    vi.advanceTimersByTime(15_000)
  }
  expect((await closed)[0]).toBe(1006)
})

test('a page is told at once, and every five seconds, that the way to it is alive', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  await using door = await viewerAndSocket()
  const { left: viewer, right: socket } = door
  const isTold = async () => expect(JSON.parse(String((await once(viewer, 'message'))[0]))).toEqual({ alive: true })
  sendPulses(socket)
  await isTold()
  for (let turn = 0; turn < 3; turn++) {
    vi.advanceTimersByTime(5_000)
    await isTold()
  }
})
