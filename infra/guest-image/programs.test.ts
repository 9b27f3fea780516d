// Guarantee: a loader's listing is read correctly.
import { expect, test } from 'vitest'
import { librariesOf } from './programs.ts'

const listing = `	linux-vdso.so.1 (0x00007ffd)
	libc.so.6 => /tree/usr/lib/x86_64-linux-gnu/libc.so.6 (0x00007f1)
	/tree/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2 => /lib64/ld-linux-x86-64.so.2 (0x00007f2)
`

test('lists the files of the tree, without the kernel’s library and the loader', () => {
  expect(librariesOf(listing)).toEqual(['/tree/usr/lib/x86_64-linux-gnu/libc.so.6'])
})

test('a missing library stops the build', () => {
  expect(() => librariesOf('\tlibgone.so.1 => not found\n')).toThrow('libgone.so.1 is in none of the packages')
})
