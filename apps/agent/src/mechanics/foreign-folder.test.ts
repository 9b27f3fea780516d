// Guarantee: a folder of another user is removed whatever is in it, and nothing outside of it.
import { execFileSync } from 'node:child_process'
import {
  existsSync,
  mkdirSync,
  mkdtempDisposableSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { removeForeignFolder } from './foreign-folder.ts'

test('links in it are removed, and what they lead to is not', async () => {
  using place = mkdtempDisposableSync(join(tmpdir(), 'dormouse-foreign-'))
  const at = (name: string) => join(place.path, name)
  mkdirSync(at('kept'))
  writeFileSync(at('kept/file'), 'kept')
  mkdirSync(at('foreign/one/two/three'), { recursive: true })
  for (const folder of ['foreign', 'foreign/one', 'foreign/one/two/three']) {
    symlinkSync(at('kept'), at(`${folder}/to-folder`))
    symlinkSync(at('kept/file'), at(`${folder}/to-file`))
    writeFileSync(at(`${folder}/own`), 'x')
    execFileSync('mkfifo', [at(`${folder}/pipe`)])
  }
  await removeForeignFolder(at('foreign'))
  expect(readdirSync(place.path)).toEqual(['kept'])
  expect(readFileSync(at('kept/file'), 'utf8')).toBe('kept')
})

test('a link in its own place is no folder to remove', async () => {
  using place = mkdtempDisposableSync(join(tmpdir(), 'dormouse-foreign-'))
  const at = (name: string) => join(place.path, name)
  mkdirSync(at('kept/inside'), { recursive: true })
  symlinkSync(at('kept'), at('link'))
  await expect(removeForeignFolder(at('link'))).rejects.toMatchObject({ code: 'ENOTDIR' })
  expect(existsSync(at('kept/inside'))).toBe(true)
  await removeForeignFolder(at('missing'))
})

test('folders deeper than any path are removed', async () => {
  using place = mkdtempDisposableSync(join(tmpdir(), 'dormouse-foreign-'))
  const foreign = join(place.path, 'foreign')
  mkdirSync(foreign)
  const dig = `for (let n = 0; n < 30; n++) { fs.mkdirSync('${'d'.repeat(200)}'); process.chdir('${'d'.repeat(200)}') }`
  execFileSync(process.execPath, ['-e', dig], { cwd: foreign })
  await removeForeignFolder(foreign)
  expect(readdirSync(place.path)).toEqual([])
})

test('it may be removed several times at once', async () => {
  using place = mkdtempDisposableSync(join(tmpdir(), 'dormouse-foreign-'))
  const foreign = join(place.path, 'foreign')
  for (let n = 0; n < 50; n++) mkdirSync(join(foreign, `${n}/a/b`), { recursive: true })
  await Promise.all(Array.from({ length: 8 }, () => removeForeignFolder(foreign)))
  expect(readdirSync(place.path)).toEqual([])
})
