// Guarantee: a picture of the hypervisor is refused by its head if it is too large, and otherwise read whole or not at all.
import { Readable } from 'node:stream'
import { expect, test } from 'vitest'
import { readPng, readPpm } from './picture.ts'

const ppm = (width: number, height: number, bytes = width * height * 3) =>
  Buffer.concat([Buffer.from(`P6\n${width} ${height}\n255\n`), Buffer.alloc(bytes, 7)])
const cut = (bytes: Buffer, at: number) => Readable.from([bytes.subarray(0, at), bytes.subarray(at)])

test.each([1, 5, 11, 12, 20])('is whole, wherever it is cut: %d', async (at) => {
  const read = await readPpm(cut(ppm(3, 2), at))
  expect(read).toMatchObject({ width: 3, height: 2, order: 'rgb' })
  expect(Buffer.from(read.pixels)).toEqual(Buffer.alloc(18, 7))
})

test.each([
  [8_000, 4_000],
  [16_000, 2_000],
  [1, 11_059_201],
])('%d × %d pixels are refused before they are read', async (width, height) => {
  let chunks = 0
  const endless = Readable.from(
    (function* () {
      yield Buffer.from(`P6\n${width} ${height}\n255\n`)
      for (;;) yield Buffer.alloc(65_536, ++chunks)
    })(),
  )
  await expect(readPpm(endless)).rejects.toMatchObject({ code: 'screen_too_large' })
  expect(endless.destroyed).toBe(true)
  // What the stream had read ahead.
  expect(chunks).toBeLessThan(32)
})

test.each([
  ['a head that never ends', Buffer.alloc(70_000, 0x20)],
  ['another format', Buffer.from('GIF89a'.padEnd(600))],
  ['no pixels', ppm(0, 5)],
  ['too few bytes', ppm(3, 2, 17)],
  ['too many bytes', ppm(3, 2, 19)],
  ['nothing', Buffer.alloc(0)],
])('%s is refused', async (_what, bytes) => {
  await expect(readPpm(cut(bytes, 4))).rejects.toMatchObject({ code: 'hypervisor_failed' })
})

const png = (width: number, height: number) => {
  const head = Buffer.alloc(24)
  head.write('\x89PNG\r\n\x1a\n\0\0\0\rIHDR', 'latin1')
  head.writeUInt32BE(width, 16)
  head.writeUInt32BE(height, 20)
  return Buffer.concat([head, Buffer.alloc(40, 7), Buffer.from('\0\0\0\0IEND\xae\x42\x60\x82', 'latin1')])
}

test.each([1, 8, 23, 24, 60])('a PNG passes as it is, wherever it is cut: %d', async (at) => {
  expect((await readPng(cut(png(720, 400), at))).png).toEqual(png(720, 400))
})

test.each([
  ['too many pixels', png(8_000, 4_000), 'screen_too_large'],
  ['no pixels', png(0, 400), 'hypervisor_failed'],
  ['no end', png(720, 400).subarray(0, -1), 'hypervisor_failed'],
  ['another format', ppm(3, 200), 'hypervisor_failed'],
  ['nothing', Buffer.alloc(0), 'hypervisor_failed'],
])('a PNG with %s is refused', async (_what, bytes, code) => {
  await expect(readPng(cut(bytes, 4))).rejects.toMatchObject({ code })
})
