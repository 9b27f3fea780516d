// Guarantee: an image of one's own has another version as soon as anything in it is another.
import { chmodSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { keyboardConf, type OwnDesktop, ownParts } from './own-desktop.ts'

const plain: OwnDesktop = { name: 'mine', packages: ['gimp', 'git'], keyboard: 'us' }

test('packages count, their order does not', () => {
  expect(ownParts({ ...plain, packages: ['git', 'gimp'] })).toEqual(ownParts(plain))
  expect(ownParts({ ...plain, packages: ['git'] })).not.toEqual(ownParts(plain))
  expect(ownParts({ ...plain, keyboard: 'de' })).not.toEqual(ownParts(plain))
})

test('each file counts with its contents and its mode, each link with its target', () => {
  const files = mkdtempSync(join(tmpdir(), 'dormouse-own-'))
  onTestFinished(() => rmSync(files, { recursive: true }))
  const seen = new Set<string>()
  const changes = [
    () => undefined,
    () => writeFileSync(join(files, '.a'), 'one'),
    () => writeFileSync(join(files, '.a'), 'two'),
    () => chmodSync(join(files, '.a'), 0o700),
    () => symlinkSync('.a', join(files, 'b')),
  ]
  for (const change of changes) {
    change()
    seen.add(JSON.stringify(ownParts({ ...plain, files })))
  }
  expect(seen.size).toBe(changes.length)
})

test('a variant of a layout is an option of its own', () => {
  expect(keyboardConf('us')).toBe(
    'Section "InputClass"\n  Identifier "keyboard"\n  MatchIsKeyboard "on"\n  Option "XkbLayout" "us"\nEndSection\n',
  )
  expect(keyboardConf('de-nodeadkeys')).toContain('Option "XkbLayout" "de"\n  Option "XkbVariant" "nodeadkeys"\n')
})
