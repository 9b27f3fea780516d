// Guarantee: whatever a viewer sends, and wherever it is split, nothing but negotiation and requests for frames passes.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { RfbFilter } from './rfb-filter.ts'
import { RfbBreach } from './rfb-terms.ts'

const bytes = (...all: (number | string | Buffer)[]): Buffer =>
  Buffer.concat(all.map((one) => (typeof one === 'number' ? Buffer.from([one]) : Buffer.from(one as string, 'latin1'))))

const greeting = bytes('RFB 003.008\n', 1, 0)
const greeted = bytes('RFB 003.008\n', 1, 1)
const pixels = (bits: number, depth: number, isTrueColour: number, max: number): Buffer =>
  bytes(0, 0, 0, 0, bits, depth, 0, isTrueColour, 0, max, 0, max, 0, max, 16, 8, 0, 0, 0, 0)
const pixelFormat = pixels(32, 24, 1, 255)
const encodings = (...list: number[]): Buffer => {
  const message = Buffer.alloc(4 + 4 * list.length)
  message.set([2, 0, 0, list.length])
  for (const [i, one] of list.entries()) message.writeInt32BE(one, 4 + 4 * i)
  return message
}
const wish = bytes(3, 1, Buffer.from([0, 0, 0, 0, 1, 64, 0, 200]))
const continuous = bytes(150, 1, Buffer.alloc(8, 1))
const fence = bytes(248, 0, 0, 0, 0, 0, 0, 1, 3, 9, 9, 9)

const key = bytes(4, 1, 0, 0, 0, 0, 0, 0x61)
const pointer = bytes(5, 1, 0, 9, 0, 9)
const cutText = bytes(6, 0, 0, 0, 0, 0, 0, 5, 'hello')
const extendedCutText = bytes(6, 0, 0, 0, 255, 255, 255, 251, 'hello')
const xvp = bytes(250, 0, 1, 2)
const resize = bytes(251, 0, 0, 9, 0, 9, 1, 0, Buffer.alloc(16, 1))
const qemuKey = bytes(255, 0, 0, 1, Buffer.alloc(8, 1))
const audioFormat = bytes(255, 1, 0, 2, Buffer.alloc(6))
const audioOn = bytes(255, 1, 0, 0)

const harmless = [pixelFormat, encodings(0, 7, -223), wish]
const dropped = [continuous, fence, key, pointer, cutText, extendedCutText, xvp, resize, qemuKey, audioFormat, audioOn]

/** What passes of the parts, given one after the other. */
function passed(claim: 'view' | 'control', parts: Buffer[]): Buffer {
  const filter = new RfbFilter(claim)
  return Buffer.concat(parts.map((part) => Buffer.from(filter.pass(part))))
}

/** The bytes cut at these places. */
function cut(whole: Buffer, places: number[]): Buffer[] {
  const ends = [...new Set(places.map((place) => place % (whole.length + 1)))].sort((a, b) => a - b)
  return [...ends, whole.length].map((end, i) => whole.subarray(ends[i - 1] ?? 0, end))
}

describe('a viewer', () => {
  test.each(harmless)('may say %#', (message) => {
    expect(passed('view', [greeting, message])).toEqual(bytes(greeted, message))
  })

  test.each(dropped)('says %# in vain, and what follows is understood', (message) => {
    expect(passed('view', [greeting, message, wish])).toEqual(bytes(greeted, wish))
  })

  test('is given those encodings only whose answers can be followed, and none that opens another way in', () => {
    const followed = [7, -260, 16, 6, 1, 0, -26, -250, -223, -224, -239]
    // Hextile, RRE, JPEG, H.264; extended clipboard, buttons and keys, sizes, audio, fences, a cursor of VMware's.
    const others = [5, 2, 21, 50, 0xc0a1e5ce | 0, -316, -258, -308, -259, -312, -313, -309, -261, 0x574d5664]
    const asked = encodings(...others, ...followed)
    expect(passed('view', [greeting, asked])).toEqual(bytes(greeted, encodings(...followed)))
  })

  test('may choose its pixels, also smaller ones, before pictures may come, and not among them', () => {
    const small = pixels(16, 16, 1, 31)
    expect(passed('view', [greeting, small, pixelFormat, wish])).toEqual(bytes(greeted, small, pixelFormat, wish))
    for (const first of [wish, encodings(7)]) {
      expect(passed('view', [greeting, small, first, small])).toEqual(bytes(greeted, small, first, small))
      expect(() => passed('view', [greeting, small, first, pixelFormat])).toThrow(RfbBreach)
    }
  })

  test('is a shared client, whatever it wishes; so is whoever controls', () => {
    for (const claim of ['view', 'control'] as const) expect(passed(claim, [greeting])).toEqual(greeted)
  })

  test('of the oldest version has no security type to choose', () => {
    expect(passed('view', [bytes('RFB 003.003\n', 0), wish])).toEqual(bytes('RFB 003.003\n', 1, wish))
  })

  test.each([
    ['another protocol', bytes('GET / HTTP/1.1')],
    ['another version', bytes('RFB 004.001\n')],
    ['a password', bytes('RFB 003.008\n', 2)],
    ['an unknown message', bytes(greeting, 99)],
    ['an unknown message of QEMU’s', bytes(greeting, 255, 7, 0, 0)],
    ['pixels of a colour map', bytes(greeting, pixels(8, 8, 0, 255))],
    ['pixels whose fourth byte has a meaning', bytes(greeting, pixels(32, 32, 1, 255))],
    ['32-bit pixels of fewer colours', bytes(greeting, pixels(32, 24, 1, 127))],
    ['endless encodings', bytes(greeting, 2, 0, 255, 255)],
  ])('that says %s is a breach', (_, said) => {
    expect(() => passed('view', [said])).toThrow(RfbBreach)
  })

  test('gets the same through wherever its bytes are cut, also at every one', () => {
    const all = fc.array(fc.constantFrom(...harmless, ...dropped), { maxLength: 12 })
    fc.assert(
      fc.property(all, fc.array(fc.nat(), { maxLength: 20 }), (messages, places) => {
        const whole = bytes(greeting, pixelFormat, ...messages)
        const expected = bytes(greeted, pixelFormat, ...messages.filter((one) => harmless.includes(one)))
        expect(passed('view', cut(whole, places))).toEqual(expected)
        const single = Array.from(whole, (byte) => Buffer.from([byte]))
        expect(passed('view', single)).toEqual(expected)
      }),
    )
  })

  test('that sends noise gets nothing through but whole harmless messages, and keeps little', () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 64 }), { maxLength: 30 }), (noise) => {
        const filter = new RfbFilter('view')
        filter.pass(greeting)
        let through = Buffer.alloc(0)
        try {
          for (const part of noise) through = Buffer.concat([through, filter.pass(Buffer.from(part))])
        } catch (error) {
          expect(error).toBeInstanceOf(RfbBreach)
        }
        expectHarmless(through)
      }),
      { numRuns: 2_000 },
    )
  })
})

test('whoever controls says all they like, from the first byte after the greeting', () => {
  const said = [greeting.subarray(0, 5), bytes(greeting.subarray(5), key), pointer, bytes(99, 1, 2, 3)]
  expect(passed('control', said)).toEqual(bytes(greeted, key, pointer, 99, 1, 2, 3))
})

/** Reads it as a server would, which knows these messages only. */
function expectHarmless(through: Buffer): void {
  const lengths: Record<number, (at: number) => number> = {
    0: () => 20,
    2: (at) => 4 + 4 * through.readUInt16BE(at + 2),
    3: () => 10,
  }
  let at = 0
  while (at < through.length) {
    const length = lengths[through[at]!]
    expect(length, `a message of type ${through[at]}`).toBeDefined()
    at += length!(at)
  }
  expect(at).toBe(through.length)
}
