// Guarantee: each decision has a number of its own, the same in its file's name and in its title.
import { readdirSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'

const folder = new URL('../../docs/decisions/', import.meta.url)
const pages = readdirSync(folder)
const numberOf = (page: string) => Number(page.slice(0, 4))

test('no two decisions share a number, and each title has its own', () => {
  expect(new Set(pages.map(numberOf)).size, pages.join('\n')).toBe(pages.length)
  for (const page of pages) expect(readFileSync(new URL(page, folder), 'utf8')).toMatch(`# ${numberOf(page)}. `)
})
