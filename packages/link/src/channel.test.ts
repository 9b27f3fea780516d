// Guarantee: a channel delivers the bytes unchanged, distinguishes an end from a cut, and holds no more than its window in
// memory.
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { buffer, text } from 'node:stream/consumers'
import { finished } from 'node:stream/promises'
import { expect, test } from 'vitest'
import { Channel, type ChannelOptions } from './channel.ts'
import { CallRefused, ChannelLost } from './errors.ts'
import { joined } from './testing/pair.ts'

/** Two joined channels. Disposing cuts what is still open, so their errors are expected. */
async function channels(left: ChannelOptions = {}, right: ChannelOptions = {}) {
  const joint = await joined(
    (socket) => new Channel(socket, left),
    (socket) => new Channel(socket, right),
  )
  for (const channel of [joint.left, joint.right]) channel.on('error', () => {})
  return joint
}

const hash = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex')

test('bytes of any size arrive whole and in order, both ways at once', async () => {
  await using joint = await channels({ windowBytes: 100_000 })
  const up = randomBytes(5_000_003)
  const down = randomBytes(3_000_001)
  joint.left.end(up)
  joint.right.end(down)
  const [gotUp, gotDown] = await Promise.all([buffer(joint.right), buffer(joint.left)])
  expect([hash(gotUp), hash(gotDown)]).toEqual([hash(up), hash(down)])
})

test('one direction ends while the other continues', async () => {
  await using joint = await channels()
  joint.left.end('question')
  expect(await text(joint.right)).toBe('question')
  joint.right.end('answer')
  expect(await text(joint.left)).toBe('answer')
})

test('a reader that stops before the end closes the channel', async () => {
  await using joint = await channels()
  const lost = once(joint.left, 'error')
  joint.left.write('one')
  for await (const _chunk of joint.right) break
  expect(await lost).toMatchObject([{ name: 'ChannelLost' }])
})

test('a channel that ended both ways closes its socket', async () => {
  await using joint = await channels()
  const closed = Promise.all([once(joint.left, 'close'), once(joint.right, 'close')])
  joint.left.end()
  joint.right.end()
  joint.left.resume()
  joint.right.resume()
  await closed
  expect([joint.left.errored, joint.right.errored]).toEqual([null, null])
})

test('a paused reader stops the writer at the window, and is not taken for dead', async () => {
  const windowBytes = 100_000
  let pings = 0
  await using joint = await joined(
    (socket) => new Channel(socket, { pingIntervalMs: 5, pingTimeoutMs: 1_000 }),
    (socket) => {
      socket.on('ping', () => pings++)
      return new Channel(socket, { windowBytes })
    },
  )
  const all = randomBytes(1_000_000)
  joint.left.end(all)
  await expect.poll(() => joint.right.readableLength).toBeGreaterThanOrEqual(windowBytes)
  // Pings queue behind bytes: whatever would still come has come after two of them.
  const before = pings
  await expect.poll(() => pings).toBeGreaterThan(before + 2)
  expect(joint.right.readableLength).toBeLessThanOrEqual(windowBytes + joint.right.readableHighWaterMark)
  joint.right.end()
  expect(hash(await buffer(joint.right))).toBe(hash(all))
  joint.left.resume()
  await finished(joint.left)
})

test('bytes that wait one by one arrive in order, in few pieces', async () => {
  await using joint = await joined(
    (socket) => socket,
    (socket) => new Channel(socket),
  )
  const all = randomBytes(100_000)
  const sendEach = (from: number, to: number) => {
    for (let at = from; at < to; at++) joint.left.send(all.subarray(at, at + 1))
  }
  // More than the reader's own buffer takes.
  joint.left.send(all.subarray(0, 90_000))
  sendEach(90_000, 92_000)
  joint.left.send(all.subarray(92_000, 99_900))
  sendEach(99_900, all.length)
  joint.left.send('{"end":true}')
  await expect.poll(() => joint.right.readableLength).toBe(all.length)
  const pieces: Buffer[] = []
  for await (const piece of joint.right) pieces.push(piece)
  expect(hash(Buffer.concat(pieces))).toBe(hash(all))
  expect(pieces.length).toBeLessThan(10)
})

test.each(['cut', 'cutMidFrame'] as const)('a %s is an error to the reader, never an end', async (fault) => {
  await using joint = await channels()
  joint.left.write('the first half')
  await once(joint.right, 'readable')
  const read = text(joint.right)
  if (fault === 'cut') joint.proxy.cut()
  else {
    joint.proxy.cutMidFrame('toTarget')
    joint.left.write('the second half')
  }
  await expect(read).rejects.toBeInstanceOf(ChannelLost)
})

test('a channel detects a silent connection', async () => {
  const beat = { pingIntervalMs: 10, pingTimeoutMs: 20 }
  await using joint = await channels(beat, beat)
  const noticed = Promise.all([once(joint.left, 'error'), once(joint.right, 'error')])
  joint.proxy.halfOpen()
  const lost = expect.objectContaining({ reason: 'no sign of life within 20 ms' })
  expect(await noticed).toEqual([[lost], [lost]])
})

test('a refusal crosses with code and detail', async () => {
  await using joint = await channels()
  const refused = once(joint.left, 'error')
  joint.right.destroy(new CallRefused('no_space', 'the disk is full'))
  const [error] = await refused
  expect(error).toBeInstanceOf(CallRefused)
  expect(error).toMatchObject({ code: 'no_space', detail: 'the disk is full' })
})

test('a bug crosses as a loss, without its text', async () => {
  await using joint = await channels()
  const lost = once(joint.left, 'error')
  joint.right.destroy(new Error('secret'))
  const [error] = await lost
  expect(error).toBeInstanceOf(ChannelLost)
  expect(String(error)).not.toContain('secret')
})

test('closing before the end is a loss to the other side', async () => {
  await using joint = await channels()
  const lost = once(joint.left, 'error')
  joint.right.destroy()
  expect(await lost).toMatchObject([{ name: 'ChannelLost' }])
})

test.each([
  ['more than was granted', (send: Send) => send(Buffer.alloc(2_000)), 'more bytes than granted'],
  ['a note that is not JSON', (send: Send) => send('nonsense'), 'a note must be JSON'],
  ['a note of no known kind', (send: Send) => send('{"credit":-1}'), 'an unknown note'],
  [
    'bytes after the end',
    (send: Send) => {
      send('{"end":true}')
      send(Buffer.alloc(1))
    },
    'bytes after the end',
  ],
])('a client that sends %s is disconnected with the reason', async (_what, act, reason) => {
  await using joint = await joined(
    (socket) => socket,
    (socket) => new Channel(socket, { windowBytes: 1_000 }),
  )
  joint.right.on('error', () => {})
  const gone = once(joint.left, 'close')
  act((data) => joint.left.send(data))
  const [code, said] = await gone
  expect({ code, said: String(said) }).toEqual({ code: 1002, said: reason })
})

type Send = (data: string | Buffer) => void
