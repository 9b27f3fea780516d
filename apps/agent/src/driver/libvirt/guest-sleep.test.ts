// Guarantee: only a guest in suspend-to-idle is taken for asleep. These are the values of a guest on QEMU.
import { expect, test } from 'vitest'
import { isSuspendedToIdle } from './guest-sleep.ts'

test.each([
  ['waits in suspend-to-idle', 0x120, 0, true],
  ['works', 0x120, 0x26, false],
  ['works on a q35', 0x120, 0x6, false],
  ['boots, and its firmware has not placed the registers', 0xffff, 0, false],
  ['boots, and its system has not begun', 0, 0, false],
  ['cannot be read', Number.NaN, Number.NaN, false],
  ['has events that cannot be read', 0x120, Number.NaN, false],
])('a guest that %s: %i, %i', (_, fixed, general, expected) => {
  expect(isSuspendedToIdle(fixed, general)).toBe(expected)
})
