/** The table: each entry reads the bytes of its shape, and only those; no number twice. */
import { describe, expect, test } from 'vitest'
import { errorBody, events, type Procedure, procedures } from './protocol.ts'
import { shapeBytes } from './testing/shape-bytes.ts'
import { type Codec, XdrError, XdrReader, XdrWriter } from './xdr.ts'

const table = Object.entries(procedures) as [string, Procedure<unknown, unknown>][]
const codecs: [string, Codec<unknown>][] = [
  ...table.flatMap(([name, { args, result }]): [string, Codec<unknown>][] => [
    [`${name} arguments`, args],
    [`${name} result`, result],
  ]),
  ...Object.entries(events).map(([name, { body }]): [string, Codec<unknown>] => [name, body as Codec<unknown>]),
  ['error', errorBody as Codec<unknown>],
]

function read(codec: Codec<unknown>, bytes: Buffer): unknown {
  const reader = new XdrReader(bytes)
  const value = codec.read(reader)
  reader.end()
  return value
}

describe('the table', () => {
  test.each(codecs)('%s: reads and writes the same bytes, and refuses them cut at any byte', (_name, codec) => {
    const wire = shapeBytes(codec.shape)
    const to = new XdrWriter()
    codec.write(to, read(codec, wire))
    expect(to.finish().toString('hex')).toBe(wire.toString('hex'))
    for (let cut = 0; cut < wire.length; cut++) expect(() => read(codec, wire.subarray(0, cut))).toThrow(XdrError)
  })

  test('has no number twice', () => {
    const numbers = table.map(([, { program, number }]) => `${program}:${number}`)
    expect(new Set(numbers).size).toBe(numbers.length)
  })
})
