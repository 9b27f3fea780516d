// Guarantee: a folder is made with what is missing above it, or an error has the reason; no path makes it go on forever.
import { mkdirSync, mkdtempDisposableSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { makeFolder } from './folders.ts'

test('folders are made to any depth, once', () => {
  using at = mkdtempDisposableSync(join(tmpdir(), 'dormouse-folders-'))
  const deep = join(at.path, 'a/b/c')
  makeFolder(`${deep}/`, 0o700)
  makeFolder(deep)
  expect(statSync(deep).mode & 0o777).toBe(0o700)
  symlinkSync(deep, join(at.path, 'link'))
  makeFolder(join(at.path, 'link/d'))
  expect(statSync(join(deep, 'd')).isDirectory()).toBe(true)
})

test.each([
  ['/proc/x', 'ENOENT'],
  ['/proc/x/y/z', 'ENOENT'],
  ['/dev/null/x', 'ENOTDIR'],
  ['file', 'EEXIST'],
  ['file/x', 'ENOTDIR'],
  ['dangling/x', 'ENOENT'],
  ['circle/x', 'ELOOP'],
  ['n'.repeat(300), 'ENAMETOOLONG'],
])('%s is %s', (name, code) => {
  using at = mkdtempDisposableSync(join(tmpdir(), 'dormouse-folders-'))
  mkdirSync(join(at.path, 'folder'))
  writeFileSync(join(at.path, 'file'), '')
  symlinkSync('nothing', join(at.path, 'dangling'))
  symlinkSync('circle', join(at.path, 'circle'))
  const path = name.startsWith('/') ? name : join(at.path, name)
  expect(() => makeFolder(path)).toThrow(expect.objectContaining({ code }))
})
