// Guarantee: the pages that are made from the code say what the code says.
import { expect, test } from 'vitest'
import { pages, stalePages } from './generate-docs.ts'

test('every generated page is what the code says', () => {
  expect(stalePages(), 'npm run docs').toEqual([])
})

test('a page is the same on every machine', () => {
  for (const make of Object.values(pages)) expect(make()).toBe(make())
})
