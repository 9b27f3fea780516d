// Guarantee: a screen's bytes arrive unchanged, although the memory of sent bytes is released; and each side's end ends the
// other.
import { once } from 'node:events'
import { type Duplex, duplexPair } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { Channel } from '@dormouse/link'
import { joined } from '@dormouse/link/testing'
import { createLog } from '@dormouse/process'
import { expect, test } from 'vitest'
import { joinScreen } from './join-screen.ts'

const log = createLog({ name: 'test', level: 'silent' })
const channels = () =>
  joined(
    (socket) => new Channel(socket, { windowBytes: 100_000 }),
    (socket) => new Channel(socket, { windowBytes: 100_000 }),
  )

async function read(stream: Duplex, bytes: number): Promise<Buffer> {
  let all = Buffer.alloc(0)
  while (all.length < bytes) {
    const piece = stream.read()
    if (piece) all = Buffer.concat([all, piece])
    else await once(stream, 'readable')
  }
  return all
}

test('chunks of any size arrive whole, in both directions, also with a slow reader', async () => {
  await using way = await channels()
  const [screen, qemu] = duplexPair()
  const over = joinScreen(screen, way.left, log)
  const said = Array.from({ length: 60 }, (_, i) => Buffer.alloc(i % 3 === 0 ? 65_536 : 1_000 + i, i))
  const whole = Buffer.concat(said)
  for (const piece of said) qemu.write(piece)
  way.right.write('a key')
  expect((await read(qemu, 5)).toString()).toBe('a key')
  expect((await read(way.right, whole.length)).equals(whole)).toBe(true)
  way.right.destroy()
  await over
  expect(screen.destroyed).toBe(true)
})

test('a screen that ends, ends its channel', async () => {
  await using way = await channels()
  const [screen, qemu] = duplexPair()
  const over = joinScreen(screen, way.left, log)
  qemu.end()
  expect((await buffer(way.right)).length).toBe(0)
  way.right.destroy()
  await over
})
