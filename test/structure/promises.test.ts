// Guarantee: docs/promises.md names tests that exist.
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'

const root = join(import.meta.dirname, '../..')
const rows = readFileSync(join(root, 'docs/promises.md'), 'utf8').match(/^\| (?!---|promise).*$/gm) ?? []
const testsIn = (row: string) => [...row.matchAll(/`([^`]+\.test\.ts)`/g)].map(([, path]) => path!)

test('each promise names a test, and each test that is named exists', () => {
  expect(rows.length).toBeGreaterThan(0)
  expect(rows.filter((row) => testsIn(row).length === 0)).toEqual([])
  expect(rows.flatMap(testsIn).filter((path) => !existsSync(join(root, path)))).toEqual([])
})
