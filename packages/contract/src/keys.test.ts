// Guarantee: every name that people and tools use for a key means it, and an unknown one is refused with names that are like it.
import { describe, expect, test } from 'vitest'
import { inputBody } from './input.ts'
import { keyCodes, keyNamed, whyNoKey } from './keys.ts'

test.each([
  ['Enter', 'Enter'],
  ['RETURN', 'Enter'],
  ['ctrl', 'Control'],
  ['Control_L', 'Control'],
  ['CMD', 'Meta'],
  ['super', 'Meta'],
  ['Page_Down', 'PageDown'],
  ['page down', 'PageDown'],
  ['Prior', 'PageUp'],
  ['up', 'ArrowUp'],
  ['ISO_Level3_Shift', 'AltGraph'],
  ['KP_Enter', 'NumpadEnter'],
  ['space', 'Space'],
  [' ', 'Space'],
  ['f12', 'F12'],
  ['XF86AudioRaiseVolume', 'AudioVolumeUp'],
])('"%s" is %s', (given, name) => {
  expect(keyNamed(given)).toEqual({ name })
})

test.each([
  ['a', 'a'],
  ['A', 'A'],
  ['+', '+'],
  ['plus', '+'],
  ['Ř', 'Ř'],
  ['KeyQ', 'q'],
  ['Digit7', '7'],
  ['slash', '/'],
])('"%s" is the character %s', (given, char) => {
  expect(keyNamed(given)).toEqual({ char })
})

test('every name means itself, and each has a code of its own', () => {
  for (const name of Object.keys(keyCodes)) expect(keyNamed(name)).toEqual({ name })
  expect(new Set(Object.values(keyCodes)).size).toBe(Object.keys(keyCodes).length)
})

test.each(['', 'Entr', 'Ctrl+s', 'toString', '\n', 'x'.repeat(10_000)])('"%s" is no key', (given) => {
  expect(keyNamed(given)).toBeUndefined()
})

test('a refusal suggests what is like it', () => {
  expect(whyNoKey('Entr')).toBe('"Entr" is not the name of a key; did you mean "Enter"?')
  expect(whyNoKey('Escpe')).toContain('"Escape"')
  expect(whyNoKey('frobnicate')).toBe('"frobnicate" is not the name of a key')
})

describe('a batch is refused by the field that is wrong', () => {
  const whyNot = (actions: unknown[], more = {}) => {
    const { error } = inputBody.safeParse({ actions, ...more })
    return `${error?.issues[0]?.path.join('.')}: ${error?.issues[0]?.message}`
  }
  test.each([
    [[{ type: 'key', keys: ['Control', 'Entr'] }], /^actions\.0\.keys\.1: "Entr" is not the name of a key; did you/],
    [[{ type: 'click', x: 3 }], /^actions\.0\.y: is missing/],
    [[{ type: 'wait', ms: 1 }, { type: 'klick' }], /^actions\.1\.type: must be move, click/],
    [[{ type: 'screenshot' }, { type: 'wait', ms: 1 }], /^actions\.0\.type: screenshot must be the last/],
    [[{ type: 'click', holds: [] }], /^actions\.0: /],
    [[], /^actions: /],
    [Array(101).fill({ type: 'wait', ms: 1 }), /^actions: /],
    [[{ type: 'click', x: -1, y: 0 }], /^actions\.0\.x: /],
    [[{ type: 'type', text: 'x'.repeat(10_001) }], /^actions\.0\.text: /],
  ])('%j', (actions, why) => {
    expect(whyNot(actions)).toMatch(why)
  })
  test('a click at 0 is a place', () => {
    expect(inputBody.safeParse({ actions: [{ type: 'click', x: 0, y: 0 }] }).success).toBe(true)
  })
})

test('keys that are pressed together are written one by one, and the message shows how', () => {
  expect(whyNoKey('ctrl+c')).toBe('"ctrl+c" is several keys; write each by itself: "ctrl", "c"')
  expect(whyNoKey('ctrl+nonsense')).toContain('is not the name of a key')
})
