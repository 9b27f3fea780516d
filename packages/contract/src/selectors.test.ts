import { describe, expect, test } from 'vitest'
import { holdsEveryTerm, matches, parseSelector, selectorText } from './selectors.ts'

const labels = { team: 'qa', run: '41', note: 'a, "b"', empty: '' }

describe('a selector', () => {
  test.each([
    ['team=qa', true],
    ['team==qa', true],
    ['team = qa , run != 42', true],
    ['team=qa,run!=41', false],
    ['team in (dev,qa)', true],
    ['team in(dev)', false],
    ['team notin (dev, ops)', true],
    ['owner notin (ann)', true],
    ['owner!=ann', true],
    ['owner', false],
    ['!owner', true],
    ['empty', true],
    ['empty=', true],
    ['team=', false],
    ['note="a, \\"b\\""', true],
    ['in in (in)', false],
    ['constructor', false],
  ])('%s matches these labels: %s', (text, expected) => {
    expect(matches(parseSelector(text), labels)).toBe(expected)
    expect(matches(parseSelector(selectorText(parseSelector(text))), labels)).toBe(expected)
  })

  test.each([
    ['', 'at character 1'],
    ['team=qa,', 'at character 9'],
    ['team=qa run', 'expected `,` or the end, at character 9'],
    ['team in qa', 'expected `(`, at character 9'],
    ['team in (a', 'expected `,` or `)`, at character 11'],
    ['=qa', 'at character 1'],
    ['team="qa', 'at character 6'],
    ['-team', 'at character 1'],
    [`${'k'.repeat(64)}=1`, 'at character 1'],
    ['a=\u0000', 'printable characters only, at character 3'],
    ['a=\ud800', 'printable characters only, at character 3'],
    ['a,'.repeat(40), 'at character'],
    ['a'.repeat(3_000), 'at most 2000 characters'],
  ])('that does not parse says where: %s', (text, where) => {
    expect(() => parseSelector(text)).toThrow(where)
  })

  test('has one form for the same terms', () => {
    expect(selectorText(parseSelector('b in (y,x,y), a == 1, a=1'))).toBe('a=1,b in (x,y)')
    expect(selectorText(parseSelector('b in (x)'))).toBe('b=x')
  })

  test('of the greatest length has a form that parses', () => {
    const longest = (head: string) => `${head}${'x'.repeat(2_000 - head.length - 1)})`
    for (const head of ['k in (a,', 'k==a,b in (c,', 'k="a",b in ("c",']) {
      const text = selectorText(parseSelector(longest(head)))
      expect(selectorText(parseSelector(text))).toBe(text)
    }
    expect(() => parseSelector(longest('k in(a,'))).toThrow('at most 2000 characters')
  })

  test('holds every term of another only if each of those is among its own', () => {
    const [outer, inner] = [parseSelector('team=qa'), parseSelector('run=1,team in (qa)')]
    expect(holdsEveryTerm(inner, outer)).toBe(true)
    expect(holdsEveryTerm(outer, inner)).toBe(false)
  })
})
