// Guarantee: the generated pages match the code.
import { expect, test } from 'vitest'
import { pages, stalePages } from './generate-docs.ts'

test('every generated page is up to date', () => {
  expect(stalePages(), 'npm run docs').toEqual([])
})

test('a page is the same on every machine', () => {
  for (const make of Object.values(pages)) expect(make()).toBe(make())
})
