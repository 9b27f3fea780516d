// Guarantee: what ARCHITECTURE.md calls the spine exists, and is short enough to be read in a day.
import { globSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'

const root = join(import.meta.dirname, '../..')
const linesMax = 8_000

test('the spine has at most 8,000 lines', () => {
  const page = readFileSync(join(root, 'ARCHITECTURE.md'), 'utf8')
  const [, section = ''] = /^## The spine$(.*?)^## /ms.exec(page) ?? []
  const paths = [...section.matchAll(/`([^`]+)`/g)].map(([, path]) => path!)
  expect(paths.length).toBeGreaterThan(10)
  const files = new Set(paths.flatMap(filesOf))
  const lines = [...files].map((file) => readFileSync(join(root, file), 'utf8').split('\n').length - 1)
  expect(lines.reduce((sum, count) => sum + count, 0)).toBeLessThanOrEqual(linesMax)
})

/** The file itself, or the sources of a folder without its tests. */
const filesOf = (path: string): string[] =>
  statSync(join(root, path)).isFile()
    ? [path]
    : globSync(`${path}/**/*.ts`, { cwd: root, exclude: (name) => name.endsWith('.test.ts') })
