import { expect, test } from 'vitest'
import { FailingHosts } from './failing.ts'

test('three desktops in a row are too many, one that fails again and again is not', () => {
  const failing = new FailingHosts()
  expect(['a', 'a', 'a', 'b'].map((desktop) => failing.failed('host', desktop))).not.toContain(true)
  expect(failing.failed('other', 'c')).toBe(false)
  expect(failing.failed('host', 'c')).toBe(true)
  // After the quarantine one more is enough.
  expect(failing.failed('host', 'd')).toBe(true)
})

test('a success in between starts the count again', () => {
  const failing = new FailingHosts()
  failing.failed('host', 'a')
  failing.failed('host', 'b')
  failing.succeeded('host')
  expect(failing.failed('host', 'c')).toBe(false)
})
