// Guarantee: a picture shows the requested part, in its size and format. Making it delays neither the agent nor another
// customer’s, and ends when its caller has gone.
import { randomFillSync } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { jpegMaxPixels, type PictureSpec } from '@dormouse/contract'
import decode, { init } from '@jsquash/jpeg/decode.js'
import { PNG } from 'pngjs'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Framebuffer } from './framebuffer.ts'
import { type PictureCaller, PictureEncoder } from './picture-encoder.ts'
import { pictureOf } from './pictures.ts'
import { jpegSize } from './scaling.ts'

const encoder = new PictureEncoder({ waitMs: 100_000, encodeMs: 100_000 })
const wasm = fileURLToPath(import.meta.resolve('@jsquash/jpeg/codec/dec/mozjpeg_dec.wasm'))
beforeAll(() => init({ wasmBinary: readFileSync(wasm) }))
afterAll(() => encoder.close())

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

const caller = { share: 'a', signal: new AbortController().signal }
const made = (frame: Framebuffer, spec: PictureSpec, of: PictureCaller = caller) =>
  encoder.make(of, () => pictureOf(frame, spec))

test('a region, made smaller, as PNG and as JPEG', async () => {
  const spec = { region: { x: 40, y: 10, width: 60, height: 30 }, fit: 30 }
  const png = PNG.sync.read(await made(halves(120, 80), spec))
  expect([png.width, png.height]).toEqual([30, 15])
  expect(pixel(png.data, 30, 0, 0)).toEqual([0, 0, 200])
  expect(pixel(png.data, 30, 29, 14)).toEqual([200, 0, 0])
  const bytes = await made(halves(120, 80), { ...spec, format: 'jpeg', quality: 95 })
  const jpeg = await decode(new Uint8Array(bytes).buffer)
  expect([jpeg.width, jpeg.height]).toEqual([30, 15])
  near(pixel(jpeg.data, 30, 2, 2), [0, 0, 200])
  near(pixel(jpeg.data, 30, 27, 12), [200, 0, 0])
})

test('a region beyond the edge is cut off there', async () => {
  const png = PNG.sync.read(await made(halves(40, 20), { region: { x: 30, y: 15, width: 99, height: 99 } }))
  expect([png.width, png.height]).toEqual([10, 5])
})

test('a JPEG is bounded in its pixels', () => {
  expect(jpegSize({ width: 1_280, height: 800 })).toEqual({ width: 1_280, height: 800 })
  const { width, height } = jpegSize({ width: 16_384, height: 1_024 })
  expect(width * height).toBeLessThanOrEqual(jpegMaxPixels * 1.001)
  expect(width / height).toBeCloseTo(16, 1)
})

/** Pixels that do not compress. */
function noise(): Framebuffer {
  const frame = new Framebuffer({ width: 1_280, height: 800 })
  randomFillSync(frame.bytes)
  return frame
}

test.each(['png', 'jpeg'] as const)(
  'a large %s leaves this thread to others, and pictures take turns between shares',
  async (format) => {
    const frame = noise()
    const order: string[] = []
    const one = async (share: string) => {
      await made(frame, { format }, { ...caller, share })
      order.push(share)
    }
    const all = Promise.all([one('a'), one('a'), one('a'), one('b')])
    let turns = 0
    const beat = setInterval(() => turns++, 1)
    await all
    clearInterval(beat)
    expect(order).toEqual(['a', 'a', 'b', 'a'])
    // If it were made here, none would come between.
    expect(turns).toBeGreaterThan(20)
  },
)

test('a queue of one share is bounded, and another’s picture is made all the same', async () => {
  const all = Array.from({ length: 80 }, () => made(halves(16, 16), { format: 'jpeg' }))
  const other = made(halves(16, 16), { format: 'jpeg' }, { ...caller, share: 'b' })
  const results = await Promise.allSettled(all)
  const refused = results.flatMap((one) => (one.status === 'rejected' ? [one.reason.code] : []))
  expect(refused).toEqual(Array(15).fill('pictures_busy'))
  expect((await other).subarray(0, 2)).toEqual(Buffer.from([0xff, 0xd8]))
})

test('a picture whose caller has gone is not made: neither one that waits nor one that is being made', async () => {
  const [waits, works] = [new AbortController(), new AbortController()]
  const taken: string[] = []
  const slow = encoder.make({ ...caller, signal: works.signal }, () => {
    taken.push('works')
    return pictureOf(noise(), { format: 'png' })
  })
  const waiting = encoder.make({ ...caller, signal: waits.signal }, () => {
    taken.push('waits')
    return pictureOf(halves(16, 16), {})
  })
  const next = made(halves(16, 16), { format: 'jpeg' })
  waits.abort(new Error('gone'))
  await expect(waiting).rejects.toThrow('gone')
  works.abort(new Error('gone, too'))
  await expect(slow).rejects.toThrow('gone, too')
  expect((await next).subarray(0, 2)).toEqual(Buffer.from([0xff, 0xd8]))
  expect(taken).toEqual(['works'])
})
