// What a loader's listing means.
import { expect, test } from 'vitest'
import { librariesOf } from './programs.ts'

const listing = `	linux-vdso.so.1 (0x00007ffd)
	libc.so.6 => /tree/usr/lib/x86_64-linux-gnu/libc.so.6 (0x00007f1)
	/tree/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2 => /lib64/ld-linux-x86-64.so.2 (0x00007f2)
`

test('libraries are files of the tree; the kernel’s and the loader itself are none', () => {
  expect(librariesOf(listing)).toEqual(['/tree/usr/lib/x86_64-linux-gnu/libc.so.6'])
})

test('a library that is nowhere stops the build rather than the guest', () => {
  expect(() => librariesOf('\tlibgone.so.1 => not found\n')).toThrow('libgone.so.1 is in none of the packages')
})
