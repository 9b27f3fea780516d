// Guarantee: keys, pointer and clipboard are input, wherever they are split; requests for pictures never are.
import { expect, test } from 'vitest'
import { RfbFilter } from './rfb-filter.ts'
import { RfbInputs } from './rfb-inputs.ts'

const picture = [3, 1, 0, 0, 0, 0, 4, 0, 3, 0]
const format = [0, ...Array(19).fill(0)]
const encodings = (...codes: number[]) => {
  const bytes = Buffer.alloc(4 + 4 * codes.length)
  bytes[0] = 2
  bytes.writeUInt16BE(codes.length, 2)
  for (const [i, code] of codes.entries()) bytes.writeInt32BE(code, 4 + 4 * i)
  return [...bytes]
}
const size = [251, 0, 4, 0, 3, 0, 1, 0, ...Array(16).fill(0)]
const key = [4, 1, 0, 0, 0, 0, 0, 0x61]
const pointer = [5, 0, 0, 1, 0, 1]
const clipboard = [6, 0, 0, 0, 0, 0, 0, 3, 4, 4, 4]
const qemuKey = [255, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 4]
const qemuAudio = [255, 1, 0, 1]
const quiet = [...picture, ...format, ...encodings(0, -239, 7), ...size, ...qemuAudio, ...picture]

/** How many inputs are noticed, with the bytes in pieces of that length. */
function heard(bytes: number[], pieceLength = bytes.length): number {
  let count = 0
  const inputs = new RfbInputs(() => count++)
  for (let at = 0; at < bytes.length; at += pieceLength) inputs.hear(Buffer.from(bytes.slice(at, at + pieceLength)))
  return count
}

test.each([1, 2, 3, 7, 64, 1_000])('in pieces of %i bytes', (pieceLength) => {
  expect(heard([...quiet, ...quiet], pieceLength)).toBe(0)
  for (const input of [key, pointer, clipboard, qemuKey])
    expect(heard([...quiet, ...input, ...quiet], pieceLength)).toBe(1)
})

test('a pointer message is a byte longer where the client has asked for that and marks it', () => {
  const extended = [5, 0x80, 0, 1, 0, 1, 4]
  expect(heard([...encodings(-316), ...extended, ...picture, ...picture], 5)).toBe(1)
  expect(heard([...encodings(-316), ...pointer, ...picture, ...picture], 5)).toBe(1)
})

test('behind a message that nobody knows, everything but requests for pictures counts', () => {
  let count = 0
  const inputs = new RfbInputs(() => count++)
  inputs.hear(Buffer.from([99, 1, 2, 3]))
  inputs.hear(Buffer.from([...picture, ...picture]))
  expect(count).toBe(1)
  inputs.hear(Buffer.from(key))
  expect(count).toBe(2)
})

test('the handshake is no input, and what comes with its last byte is', () => {
  let count = 0
  const inputs = new RfbInputs(() => count++)
  const filter = new RfbFilter('control', (messages) => inputs.hear(messages))
  filter.pass(Buffer.from('RFB 003.008\n'))
  filter.pass(Buffer.from([1]))
  expect(count).toBe(0)
  filter.pass(Buffer.from([1, ...key.slice(0, 3)]))
  expect(filter.pass(Buffer.from(key.slice(3)))).toHaveLength(5)
  expect(count).toBe(1)
})
