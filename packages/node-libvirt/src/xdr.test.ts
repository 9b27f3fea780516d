/** The codecs: what is written is read again, and nothing but what was written. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  bytes,
  type Codec,
  characters,
  f64,
  flag,
  i32,
  i64,
  list,
  optional,
  record,
  type TypedValue,
  text,
  typedValue,
  u32,
  u64,
  uuid,
  XdrError,
  XdrReader,
  XdrWriter,
} from './xdr.ts'

function encode<T>(codec: Codec<T>, value: T): Buffer {
  const to = new XdrWriter(8)
  codec.write(to, value)
  return to.finish()
}

function decode<T>(codec: Codec<T>, from: Buffer): T {
  const reader = new XdrReader(from)
  const value = codec.read(reader)
  reader.end()
  return value
}

const typed: fc.Arbitrary<TypedValue> = fc.oneof(
  fc.record({ type: fc.constant('i32' as const), value: fc.integer() }),
  fc.record({ type: fc.constant('u32' as const), value: fc.nat() }),
  fc.record({ type: fc.constant('i64' as const), value: fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }) }),
  fc.record({ type: fc.constant('u64' as const), value: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }) }),
  fc.record({ type: fc.constant('f64' as const), value: fc.double({ noNaN: true }) }),
  fc.record({ type: fc.constant('flag' as const), value: fc.boolean() }),
  fc.record({ type: fc.constant('text' as const), value: fc.string({ unit: 'grapheme' }) }),
)
const everything = record({
  i32,
  u32,
  i64,
  u64,
  f64,
  flag,
  text,
  bytes,
  uuid,
  model: characters(8),
  maybe: optional(text),
  values: list(record({ name: text, value: typedValue })),
})
const values = fc.record({
  i32: fc.integer(),
  u32: fc.nat(),
  i64: fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
  u64: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
  f64: fc.double({ noNaN: true }),
  flag: fc.boolean(),
  text: fc.string({ unit: 'grapheme' }),
  bytes: fc.uint8Array(),
  uuid: fc.uuid(),
  model: fc.string({ unit: fc.constantFrom(...'abcx86_64'), maxLength: 8 }),
  maybe: fc.option(fc.string(), { nil: undefined }),
  values: fc.array(fc.record({ name: fc.string(), value: typed }), { maxLength: 4 }),
})

describe('codecs', () => {
  test('read what they wrote, in whole words', () => {
    fc.assert(
      fc.property(values, (value) => {
        const wire = encode(everything, value)
        expect(wire.length % 4).toBe(0)
        expect(decode(everything, wire)).toEqual(value)
      }),
    )
  })

  test('refuse what is cut at any byte, and what has a byte too many', () => {
    fc.assert(
      fc.property(values, (value) => {
        const wire = encode(everything, value)
        for (let cut = 0; cut < wire.length; cut++) {
          expect(() => decode(everything, wire.subarray(0, cut))).toThrow(XdrError)
        }
        expect(() => decode(everything, Buffer.concat([wire, Buffer.alloc(1)]))).toThrow(XdrError)
      }),
      { numRuns: 10 },
    )
  })

  test('answer any bytes with a value or an XdrError', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 400 }), (noise) => {
        try {
          decode(everything, Buffer.from(noise))
        } catch (error) {
          expect(error).toBeInstanceOf(XdrError)
        }
      }),
      { numRuns: 1_000 },
    )
  })

  test('make nothing of a list that claims more than there are bytes', () => {
    expect(() => decode(list(text), Buffer.from('ffffffff00000000', 'hex'))).toThrow(/a list of 4294967295/)
  })

  test('refuse a string that is not UTF-8', () => {
    expect(() => decode(text, Buffer.from('00000001ff000000', 'hex'))).toThrow(XdrError)
  })

  test('refuse an id that is not a lowercase UUID', () => {
    expect(() => encode(uuid, 'A7ECBE03-9807-477F-8668-C127D75869AD')).toThrow(XdrError)
    expect(encode(uuid, 'a7ecbe03-9807-477f-8668-c127d75869ad').toString('hex')).toBe(
      'a7ecbe039807477f8668c127d75869ad',
    )
  })

  test('spell their shape', () => {
    expect(record({ a: u32, b: optional(text), c: list(record({ u: uuid, f: flag })) }).shape).toBe(
      'u32 ?(text) [o16 i32]',
    )
  })
})
