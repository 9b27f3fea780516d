// Guarantee: input that was not accepted is sent again from the offset that the guest has, and never twice.
import { expect, test } from 'vitest'
import { TerminalInput } from './terminal-input.ts'

const bytes = (text: string) => new TextEncoder().encode(text)
const textOf = (input: TerminalInput) => {
  const taken = input.take()
  return taken && [taken.offset, new TextDecoder().decode(taken.bytes)]
}

test('what was typed before and between connections goes on from what the guest has', async () => {
  const input = new TerminalInput()
  const first = input.add(bytes('abc'))
  expect(textOf(input)).toBeUndefined()
  input.begin(10)
  void input.add(bytes('def'))
  expect([textOf(input), textOf(input)]).toEqual([[10, 'abcdef'], undefined])
  input.accept(12)
  // A lost connection: the guest has one byte more than was confirmed.
  input.begin(13)
  await first
  expect([textOf(input), textOf(input)]).toEqual([[13, 'def'], undefined])
  input.accept(16)
  // Another client has typed two bytes.
  input.begin(18)
  const last = input.add(bytes('g'))
  expect(textOf(input)).toEqual([18, 'g'])
  input.accept(19)
  await last
})

test('a long paste goes in pieces, and no more of it than may be unconfirmed', () => {
  const input = new TerminalInput()
  input.begin(0)
  void input.add(bytes('x'.repeat(100_000))).catch(() => undefined)
  void input.add(bytes('y'.repeat(300_000))).catch(() => undefined)
  const sizes = () => {
    const all: [number, number][] = []
    for (let piece = input.take(); piece; piece = input.take()) all.push([piece.offset, piece.bytes.length])
    return all
  }
  expect(sizes()).toEqual([0, 65_536, 131_072, 196_608].map((offset) => [offset, 65_536]))
  input.accept(100_000)
  const next = input.take()
  expect([next?.offset, next?.bytes.every((byte) => byte === 0x79)]).toEqual([262_144, true])
  input.close(new Error('over'))
  expect(input.take()).toBeUndefined()
})
