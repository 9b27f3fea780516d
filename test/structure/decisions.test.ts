// Guarantee: each decision has its own number, the same in its file's name and in its title, and is in the list of decisions.
import { readdirSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'

const folder = new URL('../../docs/decisions/', import.meta.url)
const textOf = (page: string) => readFileSync(new URL(page, folder), 'utf8')
const pages = readdirSync(folder).filter((page) => page !== 'README.md')
const numberOf = (page: string) => Number(page.slice(0, 4))
const titleOf = (page: string) => textOf(page).slice(2).split('\n', 1)[0]!

test('no two decisions share a number, and each title has its own', () => {
  expect(new Set(pages.map(numberOf)).size, pages.join('\n')).toBe(pages.length)
  for (const page of pages) expect(titleOf(page)).toMatch(new RegExp(`^${numberOf(page)}\\. `))
})

test('the list links to each decision by its title', () => {
  const listed = [...textOf('README.md').matchAll(/^- \[(.+)\]\((.+)\)$/gm)].map(([, title, page]) => [page, title])
  expect(listed.sort()).toEqual(pages.map((page) => [page, titleOf(page)]).sort())
})
