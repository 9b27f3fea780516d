// Guarantee: a path names a screen only if it is whole.
import { expect, test } from 'vitest'
import { linkOf } from './link.ts'

const id = '01a218ab-0a87-78b0-aaba-f7d0a886cbbc'

test.each(['view', 'control'] as const)('a whole path names the desktop and the claim %s', (claim) => {
  expect(linkOf(`/screens/${id}/${claim}`)).toEqual({ desktopId: id, claim })
})

test.each([
  '/screens',
  `/screens/${id}`,
  `/screens/${id}/`,
  `/screens/${id}/contr`,
  `/screens/${id}/view/`,
  `/screens/${id}/view/${'a'.repeat(43)}`,
  `/screens/${id.slice(0, -1)}/view`,
  `/screens/${id}0/view`,
  '/screens/%3Bls/view',
])('%s names none', (path) => {
  expect(linkOf(path)).toBeUndefined()
})
