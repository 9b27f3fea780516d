/** Frames: found again wherever the chunks are cut; a lie about length or form ends it before anything is waited for. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { encodeFrame, type Frame, FrameSplitter, FramingError } from './frames.ts'
import { bytes } from './xdr.ts'

const header = fc.record({
  program: fc.nat(),
  procedure: fc.integer(),
  type: fc.integer({ min: 0, max: 6 }),
  serial: fc.nat(),
  status: fc.integer({ min: 0, max: 2 }),
})
const message = fc.tuple(header, fc.uint8Array({ maxLength: 40 }))

function split(chunks: Buffer[]): Frame[] {
  const frames: Frame[] = []
  const splitter = new FrameSplitter((frame) => frames.push(frame))
  for (const chunk of chunks) splitter.push(chunk)
  return frames
}

function head(words: number[]): Buffer {
  const buffer = Buffer.alloc(words.length * 4)
  words.forEach((word, at) => {
    buffer.writeUInt32BE(word, at * 4)
  })
  return buffer
}

describe('frames', () => {
  test('are the same whatever the chunks', () => {
    const chunked = fc.tuple(fc.array(message, { minLength: 1, maxLength: 5 }), fc.array(fc.nat({ max: 90 })))
    fc.assert(
      fc.property(chunked, ([messages, sizes]) => {
        const wire = Buffer.concat(messages.map(([it, body]) => encodeFrame(it, bytes, body)))
        const chunks: Buffer[] = []
        let at = 0
        for (const size of sizes) {
          chunks.push(wire.subarray(at, at + size))
          at += size
        }
        chunks.push(wire.subarray(at))
        const frames = split(chunks)
        expect(frames.map(({ body: _, ...rest }) => rest)).toEqual(messages.map(([it]) => it))
        expect(frames.map(({ body }) => body.readUInt32BE(0))).toEqual(messages.map(([, body]) => body.length))
      }),
    )
  })

  test('are whole with a cut at every byte', () => {
    const one = { program: 1, procedure: 2, type: 1, serial: 3, status: 0 }
    const wire = Buffer.concat([
      encodeFrame(one, bytes, Buffer.from('abcd')),
      encodeFrame(one, bytes, Buffer.from('e')),
    ])
    for (let cut = 0; cut <= wire.length; cut++) {
      expect(split([wire.subarray(0, cut), wire.subarray(cut)]).map(({ body }) => body.length)).toEqual([8, 8])
    }
    expect(split([...wire].map((byte) => Buffer.from([byte])))).toHaveLength(2)
  })

  test.each([
    ['shorter than a header', [27]],
    ['longer than the protocol allows', [32 * 1024 * 1024 + 5]],
    ['of another version', [28, 1, 2, 1, 1, 1, 0]],
    ['of an unknown type', [28, 1, 1, 1, 7, 1, 0]],
    ['of an unknown status', [28, 1, 1, 1, 1, 1, 3]],
  ])('refuse a message %s', (_what, words) => {
    expect(() => split([head(words)])).toThrow(FramingError)
  })

  test('hand on what was whole before the fault', () => {
    const frames: Frame[] = []
    const splitter = new FrameSplitter((frame) => frames.push(frame))
    expect(() => splitter.push(head([28, 1, 1, 1, 1, 1, 0, 5]))).toThrow(FramingError)
    expect(frames).toHaveLength(1)
  })
})
