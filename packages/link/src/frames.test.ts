// Guarantee: only valid frames are decoded.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { FrameError } from './errors.ts'
import { decodeFrame, encodeMessage, type Frame, numbered } from './frames.ts'

const name = fc.string({ minLength: 1 })
const id = fc.integer({ min: 1 })
const payload = fc.jsonValue()
const frames = fc.oneof(
  fc.record({ n: id, type: fc.constant('call' as const), name, payload, requestId: fc.string() }),
  fc.record({ n: id, type: fc.constant('reply' as const), to: id, payload }),
  fc.record({ n: id, type: fc.constant('refused' as const), to: id, code: name, detail: fc.string() }),
  fc.record({ n: id, type: fc.constant('failed' as const), to: id, incident: fc.string() }),
  fc.record({ n: id, type: fc.constant('cancel' as const), to: id }),
  fc.record({ n: id, type: fc.constant('event' as const), name, payload }),
)

test('every frame is decoded as it was encoded', () => {
  fc.assert(
    fc.property(frames, ({ n, ...message }) => {
      // JSON itself knows no negative zero.
      expect(decodeFrame(numbered(n, encodeMessage(message)))).toEqual(JSON.parse(JSON.stringify({ n, ...message })))
    }),
  )
})

test('any text is a frame or a FrameError, never another failure', () => {
  const attempt = (text: string): Frame | undefined => {
    try {
      return decodeFrame(text)
    } catch (error) {
      expect(error).toBeInstanceOf(FrameError)
      return undefined
    }
  }
  fc.assert(fc.property(fc.oneof(fc.string(), fc.json()), (text) => void attempt(text)))
})

test.each([
  ['not JSON', '{'],
  ['null', 'null'],
  ['a list', '[]'],
  ['no number', '{"type":"event","name":"a"}'],
  ['number zero', '{"n":0,"type":"event","name":"a"}'],
  ['a fraction as number', '{"n":1.5,"type":"event","name":"a"}'],
  ['no type', '{"n":1}'],
  ['an unknown type', '{"n":1,"type":"shout"}'],
  ["an object's inherited name as type", '{"n":1,"type":"constructor"}'],
  ['a call without a name', '{"n":1,"type":"call"}'],
  ['a call with an empty name', '{"n":1,"type":"call","name":""}'],
  ['a call whose request id is no text', '{"n":1,"type":"call","name":"a","requestId":7}'],
  ['a reply to nothing', '{"n":1,"type":"reply"}'],
  ['a refusal without a code', '{"n":1,"type":"refused","to":1,"detail":""}'],
])('refuses %s', (_what, text) => {
  expect(() => decodeFrame(text)).toThrow(FrameError)
})

test('keeps unknown fields, so that a newer side may add some', () => {
  expect(decodeFrame('{"n":1,"type":"cancel","to":1,"why":"later"}')).toMatchObject({ type: 'cancel', to: 1 })
})
