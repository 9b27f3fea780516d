// Guarantee: whatever a viewer says, and wherever it is cut, nothing but negotiation and wishes for frames passes.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { RfbBreach, RfbFilter } from './rfb-filter.ts'

const bytes = (...all: (number | string | Buffer)[]): Buffer =>
  Buffer.concat(all.map((one) => (typeof one === 'number' ? Buffer.from([one]) : Buffer.from(one as string, 'latin1'))))

const greeting = bytes('RFB 003.008\n', 1, 0)
const greeted = bytes('RFB 003.008\n', 1, 1)
const pixelFormat = bytes(0, 0, 0, 0, Buffer.alloc(16, 7))
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

const harmless = [pixelFormat, encodings(0, 7, -223), wish, continuous, fence]
const dropped = [key, pointer, cutText, extendedCutText, xvp, resize, qemuKey, audioFormat, audioOn]

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

  test('is never given the encodings after which other forms of input would be understood', () => {
    const asked = encodings(7, 0xc0a1e5ce | 0, -316, -308)
    expect(passed('view', [greeting, asked])).toEqual(bytes(greeted, encodings(7, -308)))
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
    ['endless encodings', bytes(greeting, 2, 0, 255, 255)],
  ])('that says %s is a breach', (_, said) => {
    expect(() => passed('view', [said])).toThrow(RfbBreach)
  })

  test('gets the same through wherever its bytes are cut, also at every one', () => {
    const all = fc.array(fc.constantFrom(...harmless, ...dropped), { maxLength: 12 })
    fc.assert(
      fc.property(all, fc.array(fc.nat(), { maxLength: 20 }), (messages, places) => {
        const whole = bytes(greeting, ...messages)
        const expected = bytes(greeted, ...messages.filter((one) => harmless.includes(one)))
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
    150: () => 10,
    248: (at) => 9 + through[at + 8]!,
  }
  let at = 0
  while (at < through.length) {
    const length = lengths[through[at]!]
    expect(length, `a message of type ${through[at]}`).toBeDefined()
    at += length!(at)
  }
  expect(at).toBe(through.length)
}
