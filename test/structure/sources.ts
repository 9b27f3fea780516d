// The sources of the repository as the structure tests see them: path, text, and what each one imports.
// Knows no rule. Imports are found by their form at the start of a line, which is how the formatter leaves them.
import { readFileSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { dirname, join, posix, relative, sep } from 'node:path'

export interface Source {
  /** From the root of the repository, with forward slashes. */
  path: string
  text: string
}

const root = join(import.meta.dirname, '../..')
const roots = ['apps', 'packages', 'scripts', 'infra', 'test']
const notOurs = new Set(['node_modules', 'dist'])

const importForms = [
  /^[ \t]*(?:import|export)\b[^'"`;]*?\bfrom\s*['"]([^'"\n]+)['"]/gm,
  /^[ \t]*import\s*['"]([^'"\n]+)['"]/gm,
  /\bimport\(\s*['"]([^'"\n]+)['"]/g,
]

/** Every TypeScript file of ours. */
export async function readSources(): Promise<Source[]> {
  const found = await Promise.all(roots.map((folder) => filesUnder(join(root, folder))))
  return found.flat().map((path) => ({
    path: relative(root, path).split(sep).join('/'),
    text: readFileSync(path, 'utf8'),
  }))
}

async function filesUnder(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { withFileTypes: true })
  const found = entries.map((entry) => {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) return notOurs.has(entry.name) || entry.name.startsWith('.') ? [] : filesUnder(path)
    return entry.isFile() && entry.name.endsWith('.ts') ? [path] : []
  })
  return (await Promise.all(found)).flat()
}

/** What it imports: packages by their name, files by their path from the root. Type imports count: they are arrows too. */
export function importsOf({ path, text }: Source): string[] {
  const named = importForms.flatMap((form) => [...text.matchAll(form)].map(([, name = '']) => name))
  return [...new Set(named)].map((name) => (name.startsWith('.') ? posix.join(dirname(path), name) : name))
}

/** Test code may look where sources may not. */
export function isTest({ path }: Source): boolean {
  return path.endsWith('.test.ts') || path.includes('/testing/')
}
