// Guarantee: a viewer sees every picture as the screen sent it, wherever its bytes are cut, and nothing that was copied.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { answersToViewer } from './rfb-answers.ts'
import { RfbBreach, RfbTerms, type RfbVersion } from './rfb-terms.ts'

const bytes = (...all: (number | string | Buffer)[]): Buffer =>
  Buffer.concat(all.map((one) => (typeof one === 'number' ? Buffer.from([one]) : Buffer.from(one as string, 'latin1'))))
const u16 = (value: number): Buffer => bytes(value >> 8, value & 255)
const i32 = (value: number): Buffer => {
  const four = Buffer.alloc(4)
  four.writeInt32BE(value)
  return four
}

const format = (bits: number): Buffer =>
  bytes(bits, bits === 32 ? 24 : bits, 0, 1, 0, 255, 0, 255, 0, 255, 16, 8, 0, 0, 0, 0)
const init = (bits: number): Buffer => bytes(u16(64), u16(48), format(bits), i32(4), 'name')
const introduced: Record<RfbVersion, Buffer> = {
  '3': bytes('RFB 003.008\n', i32(1), init(32)),
  '7': bytes('RFB 003.008\n', 2, 1, 2, init(32)),
  '8': bytes('RFB 003.008\n', 1, 1, i32(0), init(32)),
}
const greeting = introduced['8']

/** Any bytes would do: no pixel is looked at. */
const some = (length: number): Buffer => Buffer.alloc(length, 3)
const compact = (length: number): Buffer =>
  length < 128
    ? bytes(length)
    : length < 16_384
      ? bytes((length & 127) | 128, length >> 7)
      : bytes((length & 127) | 128, ((length >> 7) & 127) | 128, length >> 14)

const rectangle = (encoding: number, width: number, height: number, ...body: (number | Buffer)[]): Buffer =>
  bytes(some(4), u16(width), u16(height), i32(encoding), ...body)
const update = (...rectangles: Buffer[]): Buffer => bytes(0, 0, u16(rectangles.length), ...rectangles)

/** Rectangles of all forms, as RFC 6143 and rfbproto have them. */
const side = fc.integer({ min: 0, max: 40 })
const data = fc.integer({ min: 0, max: 70_000 }).map((length) => some(length))
const pictures = {
  raw: fc.tuple(side, side).map(([w, h]) => rectangle(0, w, h, some(w * h * 4))),
  'a copy': fc.constant(rectangle(1, 8, 8, some(4))),
  zlib: data.map((body) => rectangle(6, 8, 8, i32(body.length), body)),
  zrle: data.map((body) => rectangle(16, 8, 8, i32(body.length), body)),
  'a new size': fc.constant(rectangle(-223, 640, 480)),
  'a cursor': fc.tuple(side, side).map(([w, h]) => rectangle(-239, w, h, some(w * h * 4 + Math.ceil(w / 8) * h))),
  'tight, filled': fc.constant(rectangle(7, 8, 8, 0x80, some(3))),
  'tight, JPEG': data.map((body) => rectangle(7, 8, 8, 0x90, compact(body.length), body)),
  'tight, PNG': data.map((body) => rectangle(-260, 8, 8, 0xa0, compact(body.length), body)),
  'tight, plain': data.map((body) => rectangle(7, 8, 8, 0x10, compact(body.length), body)),
  'tight, plain and short': fc.constant(rectangle(7, 3, 1, 0x10, some(9))),
  'tight, with a gradient': data.map((body) => rectangle(7, 8, 8, 0x40, 2, compact(body.length), body)),
  'tight, two colours': data.map((body) => rectangle(7, 96, 1, 0x50, 1, 1, some(6), compact(body.length), body)),
  'tight, two colours and short': fc.constant(rectangle(7, 9, 5, 0x50, 1, 1, some(6), some(10))),
  'tight, a palette': fc
    .tuple(fc.integer({ min: 2, max: 255 }), data)
    .map(([n, body]) => rectangle(7, 4, 4, 0x60, 1, n, some((n + 1) * 3), compact(body.length), body)),
  'tight, a palette and short': fc.constant(rectangle(7, 11, 1, 0x60, 1, 3, some(12), some(11))),
}
const picture = fc.oneof(...Object.values(pictures))

const bell = bytes(2)
const copied = fc.integer({ min: 0, max: 3_000 }).map((length) => bytes(3, 0, 0, 0, i32(length), some(length)))
const copiedExtended = fc.integer({ min: 4, max: 3_000 }).map((length) => bytes(3, 0, 0, 0, i32(-length), some(length)))
const message = fc.oneof(
  fc.array(picture, { maxLength: 4 }).map((list) => ({ said: update(...list), passes: true })),
  fc.constant({ said: bell, passes: true }),
  fc.oneof(copied, copiedExtended).map((said) => ({ said, passes: false })),
)

function filter(version: RfbVersion | 'none' = '8'): ReturnType<typeof answersToViewer> {
  const terms = new RfbTerms()
  if (version !== 'none') terms.version = version
  return answersToViewer(terms)
}

/** What passes of the parts, given one after the other. */
function passed(parts: Buffer[], version?: RfbVersion): Buffer {
  const answers = filter(version)
  return Buffer.concat(parts.map((part) => answers.pass(part)))
}

const cut = (whole: Buffer, places: number[]): Buffer[] => {
  const ends = [...new Set(places.map((place) => place % (whole.length + 1)))].sort((a, b) => a - b)
  return [...ends, whole.length].map((end, i) => whole.subarray(ends[i - 1] ?? 0, end))
}
const single = (whole: Buffer): Buffer[] => Array.from(whole, (byte) => Buffer.from([byte]))

/** What comes after it is understood, so its length was. */
const copiedAfter = bytes(3, 0, 0, 0, i32(6), 'secret')

describe('to a viewer', () => {
  test.each(Object.entries(introduced))('the introduction of RFB 3.%s passes as it is', (version, whole) => {
    const said = bytes(whole, bell, copiedAfter)
    expect(passed(single(said), version as RfbVersion)).toEqual(bytes(whole, bell))
  })

  test.each(Object.entries(pictures))('%s passes as it is', (_, arbitrary) => {
    fc.assert(
      fc.property(arbitrary, (one) => {
        const said = bytes(greeting, update(one, one))
        expect(passed([bytes(said, copiedAfter, bell)]).equals(bytes(said, bell))).toBe(true)
      }),
      { numRuns: 20 },
    )
  })

  test('pictures of smaller pixels pass as they are', () => {
    const terms = new RfbTerms()
    terms.version = '8'
    terms.request(format(16))
    const short = rectangle(7, 5, 1, 0x00, some(10))
    const said = bytes(greeting, update(rectangle(0, 5, 5, some(50)), rectangle(7, 8, 8, 0x80, some(2)), short))
    const answers = answersToViewer(terms)
    expect(answers.pass(bytes(said, copiedAfter, bell))).toEqual(bytes(said, bell))
  })

  test('an update that does not say how many pictures it has ends with the last one', () => {
    const said = bytes(greeting, 0, 0, 255, 255, rectangle(1, 8, 8, some(4)), rectangle(-224, 0, 0))
    expect(passed([bytes(said, copiedAfter, bell)])).toEqual(bytes(said, bell))
  })

  test('all pictures pass and nothing that was copied does, wherever the bytes are cut', () => {
    fc.assert(
      fc.property(fc.array(message, { maxLength: 8 }), fc.array(fc.nat(), { maxLength: 30 }), (messages, places) => {
        const whole = bytes(greeting, ...messages.map(({ said }) => said))
        const expected = bytes(greeting, ...messages.filter(({ passes }) => passes).map(({ said }) => said))
        expect(passed(cut(whole, places)).equals(expected)).toBe(true)
      }),
      { numRuns: 300 },
    )
  })

  test('also where they are cut at every byte', () => {
    const few = fc.array(
      fc.oneof(
        fc.constant(bell),
        pictures.raw.map((one) => update(one, one)),
        copied,
      ),
      { maxLength: 4 },
    )
    const tights = [pictures['tight, two colours and short'], pictures['tight, a palette and short']]
    fc.assert(
      fc.property(few, fc.tuple(...tights), (messages, short) => {
        const all = [...messages, update(...short)]
        const expected = bytes(greeting, ...all.filter(([type]) => type !== 3))
        expect(passed(single(bytes(greeting, ...all))).equals(expected)).toBe(true)
      }),
      { numRuns: 50 },
    )
  })

  test('a chunk in which nothing ends and nothing is dropped is handed on, not copied', () => {
    const answers = filter()
    answers.pass(bytes(greeting, update(rectangle(0, 500, 500)).subarray(0, 16)))
    const chunk = some(65_536)
    expect(answers.pass(chunk).buffer).toBe(chunk.buffer)
  })

  test.each([
    ['data before the version was chosen', 'none', introduced['8']],
    ['no', '8', bytes('RFB 003.008\n', 0, i32(3), 'no!')],
    ['that it wants a password', '3', bytes('RFB 003.008\n', i32(2))],
    ['that the viewer may not come in', '8', bytes('RFB 003.008\n', 1, 1, i32(1))],
    ['a colour map', '8', bytes(greeting, 1, 0, u16(0), u16(1), some(6))],
    ['an unknown message', '8', bytes(greeting, 99)],
    ['audio', '8', bytes(greeting, 255, 1, u16(2), i32(4), some(4))],
    ['a picture in hextile, which nobody asked for', '8', bytes(greeting, update(rectangle(5, 8, 8, 1)))],
    ['a PNG in Tight that has none', '8', bytes(greeting, update(rectangle(7, 8, 8, 0xa0, 1)))],
    ['a filter of no kind', '8', bytes(greeting, update(rectangle(7, 8, 8, 0x40, 3)))],
  ] as const)('a screen that says %s is a breach of the screen’s', (_, version, said) => {
    const answers = filter(version)
    expect(() => answers.pass(said)).toThrow(expect.objectContaining({ name: 'RfbBreach', by: 'screen' }))
  })

  test('noise passes as what it seems to be or is a breach, and never grows', () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 64 }), { maxLength: 30 }), (noise) => {
        const answers = filter()
        answers.pass(greeting)
        let [said, through] = [0, 0]
        try {
          for (const part of noise) {
            said += part.length
            through += answers.pass(Buffer.from(part)).length
          }
        } catch (error) {
          expect(error).toBeInstanceOf(RfbBreach)
        }
        expect(through).toBeLessThanOrEqual(said)
      }),
      { numRuns: 2_000 },
    )
  })
})
