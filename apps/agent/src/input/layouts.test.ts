// Guarantee: each character is typed by the keys that its layout has for it, always with an explicit Shift.
import { expect, test } from 'vitest'
import { charactersOf, layoutNamed, layoutNames } from './layouts.ts'

const ascii = Array.from({ length: 95 }, (_, i) => String.fromCharCode(32 + i))

test.each(layoutNames)('the layout %s has all of ASCII, Enter and Tab', (name) => {
  const layout = layoutNamed(name)
  expect([...ascii, '\n', '\t'].filter((char) => !layout.has(char))).toEqual([])
})

test.each([
  ['us', '_', [{ code: 0x0c, with: ['shift'] }]],
  ['us', 'H', [{ code: 0x23, with: ['shift'] }]],
  ['us', '#', [{ code: 0x04, with: ['shift'] }]],
  ['gb', '#', [{ code: 0x2b, with: [] }]],
  ['de', '_', [{ code: 0x35, with: ['shift'] }]],
  ['de', 'z', [{ code: 0x15, with: [] }]],
  ['de', '{', [{ code: 0x08, with: ['altGr'] }]],
  ['de', '|', [{ code: 0x56, with: ['altGr'] }]],
  ['de', '\\', [{ code: 0x0c, with: ['altGr'] }]],
  ['de', '€', [{ code: 0x12, with: ['altGr'] }]],
  ['de', 'ß', [{ code: 0x0c, with: [] }]],
  // A key that waits for the next one is ended with a space, or with the letter that it belongs to.
  [
    'de',
    '^',
    [
      { code: 0x29, with: [] },
      { code: 0x39, with: [] },
    ],
  ],
  [
    'de',
    '`',
    [
      { code: 0x0d, with: ['shift'] },
      { code: 0x39, with: [] },
    ],
  ],
  [
    'de',
    'é',
    [
      { code: 0x0d, with: [] },
      { code: 0x12, with: [] },
    ],
  ],
  ['de-nodeadkeys', '^', [{ code: 0x29, with: [] }]],
] as const)('on %s, "%s" is %j', (name, char, strokes) => {
  expect(layoutNamed(name).get(char)).toEqual(strokes)
})

test('a layout lacks what no key of it types', () => {
  expect(layoutNamed('us').has('ü')).toBe(false)
  expect(layoutNamed('de').has('Ř')).toBe(false)
  expect(layoutNamed('de-nodeadkeys').has('é')).toBe(false)
})

test('text is composed, and its lines end in one newline', () => {
  expect(charactersOf('u\u0308\r\nß\r')).toEqual(['ü', '\n', 'ß', '\n'])
})
