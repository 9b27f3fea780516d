// Guarantee: a further host gets every finished image of the first one in a folder of its own, and loses none of them when
// they are removed at the first.
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { shareImages } from './host-images.ts'

test('images are shared once, with the link to the newest; what is being made is left out', () => {
  const dir = mkdtempSync(join(tmpdir(), 'dormouse-images-'))
  onTestFinished(() => rmSync(dir, { recursive: true }))
  const [source, target] = [join(dir, 'first'), join(dir, 'host-2/images')]
  const build = (version: string) => {
    mkdirSync(join(source, version), { recursive: true })
    writeFileSync(join(source, version, 'manifest.json'), version)
    rmSync(join(source, 'mini'), { force: true })
    symlinkSync(version, join(source, 'mini'))
  }
  const newest = () => readFileSync(join(target, 'mini/manifest.json'), 'utf8')
  build('mini@1')
  mkdirSync(join(source, '.making-x'))
  shareImages(source, target)
  expect([readdirSync(target), newest()]).toEqual([['mini', 'mini@1'], 'mini@1'])
  build('mini@2')
  shareImages(source, target)
  shareImages(source, target)
  expect([readdirSync(target), newest()]).toEqual([['mini', 'mini@1', 'mini@2'], 'mini@2'])
  rmSync(source, { recursive: true })
  expect(newest()).toBe('mini@2')
})
