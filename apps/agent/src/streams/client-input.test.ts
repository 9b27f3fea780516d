// Guarantee: a client's messages pass unchanged and whole, wherever they are split; what it holds down can be released at any time,
// and stays released until it lets go.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { ClientInput } from './client-input.ts'

const greeting = Buffer.from('RFB 003.008\n\x01\x01', 'latin1')
const keysym = (code: number, down: boolean) => Buffer.from([4, down ? 1 : 0, 0, 0, 0, 0, code >> 8, code & 255])
const scancode = (code: number, down: boolean) =>
  Buffer.from([255, 0, 0, down ? 1 : 0, 0, 0, 0xff, 0xe1, 0, 0, 0, code])
const pointer = (mask: number, x = 3, y = 4) => Buffer.from([5, mask, 0, x, 0, y])
const cutText = Buffer.from([6, 0, 0, 0, 0, 0, 0, 2, 104, 105])
const request = Buffer.from([3, 1, 0, 0, 0, 0, 0, 16, 0, 16])

function greeted(version = greeting): ClientInput {
  const input = new ClientInput()
  input.pass(version)
  return input
}

test('everything passes unchanged, wherever it is split', () => {
  const all = Buffer.concat([
    greeting,
    request,
    keysym(0x61, true),
    cutText,
    pointer(1),
    scancode(42, true),
    pointer(0),
    keysym(0x61, false),
  ])
  fc.assert(
    fc.property(fc.array(fc.nat(all.length)), (cuts) => {
      const input = new ClientInput()
      const edges = [0, ...cuts.toSorted((a, b) => a - b), all.length]
      const passed = edges.slice(1).map((to, i) => input.pass(all.subarray(edges[i], to)))
      expect(Buffer.concat(passed)).toEqual(all)
    }),
  )
})

test('the greeting passes as it comes: the screen answers each part of it', () => {
  const input = new ClientInput()
  expect(input.pass(greeting.subarray(0, 12))).toEqual(greeting.subarray(0, 12))
  expect(input.pass(greeting.subarray(12, 13))).toEqual(greeting.subarray(12, 13))
  const old = greeted(Buffer.from('RFB 003.003\n\x01', 'latin1'))
  expect(old.pass(keysym(0x61, true))).toEqual(keysym(0x61, true))
})

test('keys of both forms and every button are released, the last key first', () => {
  const input = greeted()
  input.pass(
    Buffer.concat([
      keysym(0xffe1, true),
      scancode(29, true),
      keysym(0x61, true),
      keysym(0x61, false),
      pointer(5, 9, 8),
    ]),
  )
  expect(input.release()).toEqual([scancode(29, false), keysym(0xffe1, false), pointer(0, 9, 8)])
  expect(input.release()).toEqual([])
})

test('what was released stays so while its holder repeats it, and works again when it was let go', () => {
  const input = greeted()
  input.pass(Buffer.concat([scancode(42, true), pointer(1)]))
  input.release()
  expect(input.pass(scancode(42, true))).toEqual(Buffer.alloc(0))
  expect(input.pass(pointer(1, 7, 7))).toEqual(pointer(0, 7, 7))
  expect(input.pass(pointer(3, 7, 7))).toEqual(pointer(2, 7, 7))
  input.pass(Buffer.concat([scancode(42, false), pointer(0)]))
  const again = Buffer.concat([scancode(42, true), pointer(1)])
  expect(input.pass(again)).toEqual(again)
})

test('a client that has lost its input still asks for pictures', () => {
  const input = greeted()
  input.isMuted = true
  const all = [keysym(0x61, true), scancode(42, true), pointer(1), cutText, request, keysym(0x61, false)]
  expect(input.pass(Buffer.concat(all))).toEqual(request)
  expect(input.release()).toEqual([])
})

test('a message that is not whole is kept back, so that a release never falls into it', () => {
  const input = greeted()
  expect(input.pass(Buffer.concat([scancode(42, true), cutText.subarray(0, 9)]))).toEqual(scancode(42, true))
  expect(input.release()).toEqual([scancode(42, false)])
})

test('what is no message, and a text of a gigabyte, are refused before they are kept', () => {
  expect(() => greeted().pass(Buffer.from([99]))).toThrow('not known')
  expect(() => greeted().pass(Buffer.from([6, 0, 0, 0, 0x40, 0, 0, 0]))).toThrow('too long')
})

test('no client gets pointer messages of another length', () => {
  const encodings = Buffer.from([2, 0, 0, 2, 0, 0, 0, 0, 0xff, 0xff, 0xfe, 0xc4])
  expect(greeted().pass(encodings)).toEqual(Buffer.from([2, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0]))
})
