import { expect, test } from 'vitest'
import type { DesktopQuery } from './client.ts'
import { idOfDesktop } from './naming.ts'
import { desktop } from './testing/samples.ts'

const [first, second] = ['019a9f00-0000-7000-8000-4711deadbeef', '019a9f00-0000-7000-8000-000000000002']
const desktops = [desktop({ id: first }), desktop({ id: second, name: 'deadbeef-1' })]
const lists = {
  listDesktops: async ({ name }: DesktopQuery) => ({
    desktops: desktops.filter((one) => name === undefined || one.name === name),
    next: undefined,
  }),
}

test.each([
  ['an id', first, first],
  ['a name', 'deadbeef-1', second],
  ['a part of an id', 'deadbeef', first],
  ['a part in capitals', '4711DEAD', first],
])('%s finds its desktop', async (_, word, id) => {
  expect(await idOfDesktop(lists, word)).toBe(id)
})

test.each([
  ['the name of a desktop that is gone is no part of another’s id', '4711', 'at least 8 characters'],
  ['a digit is no part', '0', 'at least 8 characters'],
  ['a part of several', '019a9f00', 'several desktops'],
  ['another name', 'build-1', 'no desktop has the name or the id "build-1"'],
])('%s', async (_, word, why) => {
  await expect(idOfDesktop(lists, word)).rejects.toThrow(why)
})
