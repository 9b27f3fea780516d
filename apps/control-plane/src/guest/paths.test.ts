// Guarantee: `..` in every disguise, NUL and no name at all are refused; every other path goes to the guest as it is.
import { Refusal } from '@dormouse/contract'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { guestPath } from './paths.ts'

test.each([
  '..',
  '../etc/passwd',
  'a/../b',
  'a/..',
  'a\\..\\b',
  'a/..\\b',
  '%2e%2e/a',
  'a/%2E./b',
  'a/.%2e',
  '%252e%252e/a',
  'a%2f..%2fb',
  'a%5c..%5cb',
  '',
  '/',
  'a/',
  'a\0b',
  'x'.repeat(256),
  `${'a/'.repeat(2_100)}b`,
])('refuses %j', (path) => {
  expect(() => guestPath(path)).toThrow(Refusal)
})

test.each(['etc/hostname', 'a b/ü"\'\n', '...', 'a..b', '..a', '/double', '%41', 'ends.'])(
  'takes %j as it is',
  (path) => {
    expect(guestPath(path)).toBe(`/${path}`)
  },
)

test('no path that is taken climbs, whatever is put around the dots', () => {
  const part = fc.constantFrom('..', '.', 'a', '%2e', '%2E', '/', '\\', '%2f', '%5c', '%25')
  fc.assert(
    fc.property(fc.array(part, { maxLength: 8 }), (parts) => {
      const path = parts.join('')
      let taken: string | undefined
      try {
        taken = guestPath(path)
      } catch (error) {
        if (!(error instanceof Refusal)) throw error
      }
      return taken === undefined || !taken.split('/').includes('..')
    }),
  )
})
