// Guarantee: the whole repository has one version.
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'

const root = join(import.meta.dirname, '../..')
const versionOf = (file: string): string => JSON.parse(readFileSync(join(root, file), 'utf8')).version

test('every package has the version of the root', () => {
  const files = globSync('{apps,packages}/*/package.json', { cwd: root })
  expect(files.length).toBeGreaterThan(8)
  expect(files.filter((file) => versionOf(file) !== versionOf('package.json'))).toEqual([])
})
