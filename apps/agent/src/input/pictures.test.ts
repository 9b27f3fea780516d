// Guarantee: a picture shows the part that was asked for, in its size and format, and encoding one cannot stop the agent.

import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { jpegMaxPixels } from '@dormouse/contract'
import decode, { init } from '@jsquash/jpeg/decode.js'
import { PNG } from 'pngjs'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Framebuffer } from './framebuffer.ts'
import { JpegEncoder } from './jpeg.ts'
import { jpegSize, pictureOf } from './pictures.ts'

const jpegs = new JpegEncoder()
const wasm = fileURLToPath(import.meta.resolve('@jsquash/jpeg/codec/dec/mozjpeg_dec.wasm'))
beforeAll(() => init({ wasmBinary: readFileSync(wasm) }))
afterAll(() => jpegs.close())

/** Blue at the left, red at the right. */
function halves(width: number, height: number): Framebuffer {
  const frame = new Framebuffer({ width, height })
  for (let i = 0; i < width * height; i++) frame.bytes[i * 4 + (i % width < width / 2 ? 0 : 2)] = 200
  return frame
}
const pixel = (data: ArrayLike<number>, width: number, x: number, y: number) =>
  [0, 1, 2].map((i) => data[(y * width + x) * 4 + i]!)
const near = (seen: number[], wanted: number[]) =>
  expect(
    seen.every((value, i) => Math.abs(value - wanted[i]!) < 12),
    `${seen} is not ${wanted}`,
  ).toBe(true)

test('a region, made smaller, as PNG and as JPEG', async () => {
  const spec = { region: { x: 40, y: 10, width: 60, height: 30 }, fit: 30 }
  const png = PNG.sync.read(await pictureOf(halves(120, 80), spec, jpegs))
  expect([png.width, png.height]).toEqual([30, 15])
  expect(pixel(png.data, 30, 0, 0)).toEqual([0, 0, 200])
  expect(pixel(png.data, 30, 29, 14)).toEqual([200, 0, 0])
  const bytes = await pictureOf(halves(120, 80), { ...spec, format: 'jpeg', quality: 95 }, jpegs)
  const jpeg = await decode(new Uint8Array(bytes).buffer)
  expect([jpeg.width, jpeg.height]).toEqual([30, 15])
  near(pixel(jpeg.data, 30, 2, 2), [0, 0, 200])
  near(pixel(jpeg.data, 30, 27, 12), [200, 0, 0])
})

test('a region beyond the edge is cut off there', async () => {
  const png = PNG.sync.read(await pictureOf(halves(40, 20), { region: { x: 30, y: 15, width: 99, height: 99 } }, jpegs))
  expect([png.width, png.height]).toEqual([10, 5])
})

test('a JPEG is bounded in its pixels', () => {
  expect(jpegSize({ width: 1_280, height: 800 })).toEqual({ width: 1_280, height: 800 })
  const { width, height } = jpegSize({ width: 16_384, height: 1_024 })
  expect(width * height).toBeLessThanOrEqual(jpegMaxPixels * 1.001)
  expect(width / height).toBeCloseTo(16, 1)
})

test('pictures wait for each other, and a queue of them is bounded', async () => {
  const all = Array.from({ length: 20 }, () => pictureOf(halves(16, 16), { format: 'jpeg' }, jpegs))
  const results = await Promise.allSettled(all)
  expect(results.filter(({ status }) => status === 'rejected')).toHaveLength(4)
  // The thread works on.
  expect((await pictureOf(halves(16, 16), { format: 'jpeg' }, jpegs)).subarray(0, 2)).toEqual(Buffer.from([0xff, 0xd8]))
})
