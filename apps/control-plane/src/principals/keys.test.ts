// Guarantee: a key is recognised by its shape alone, so that garbage never costs a look-up.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { hashOf, kindOf, limitedHashOf, makeKey } from './keys.ts'

test('a key made is a key known, and its hash is what is kept', () => {
  const key = makeKey('customer')
  expect(key).toMatch(/^svc_sk_[0-9A-Za-z]{49}$/)
  expect(kindOf(key)).toBe('customer')
  expect(kindOf(makeKey('operator'))).toBe('operator')
  expect(hashOf(key)).toHaveLength(32)
  expect(limitedHashOf(key)).not.toEqual(hashOf(key))
})

test('a key with any one character changed is refused without a look-up', () => {
  const key = makeKey('customer')
  fc.assert(
    fc.property(fc.integer({ min: 7, max: key.length - 1 }), fc.constantFrom(...'0aZ9'), (at, other) => {
      fc.pre(key[at] !== other)
      expect(kindOf(key.slice(0, at) + other + key.slice(at + 1))).toBeUndefined()
    }),
  )
})

test('garbage of any kind is no key', () => {
  fc.assert(fc.property(fc.string(), (text) => kindOf(text) === undefined))
})
