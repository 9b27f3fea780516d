// Guarantee: the files, symbols, links, npm scripts and settings that the pages name exist, each dependency has a reason, and
// no paragraph is long.
import { existsSync, globSync, readFileSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'

const root = join(import.meta.dirname, '../..')
const exclude = (path: string) => /(^|\/)(node_modules|dist|\.[^/]+)$/.test(path)
const files = globSync('**/*', { cwd: root, exclude })
const pages = files.filter((path) => path.endsWith('.md'))
const textOf = (path: string) => readFileSync(join(root, path), 'utf8')

/** Placeholders such as `<module>/routes.ts`, `*.test.ts` or `NNNN-what.sql`, and paths that exist only after a build or an install. */
const placeholder = /[<*…]|NNNN|(^|\/)(dist|node_modules)(\/|$)/
const fromRoot = /^(apps|packages|docs|scripts|test|infra)\/\S+$/
const source = /^[\w./-]+\.(ts|sql)$/

test('every file that a page names exists', () => {
  const isPath = (quote: string) => (fromRoot.test(quote) || source.test(quote)) && !placeholder.test(quote)
  expect(missing((text) => quotesIn(text).filter(isPath), isThere)).toEqual([])
})

test('every symbol that a page names is in the code', () => {
  const words = new Set(
    files
      .filter((path) => /\.(ts|js|c|h|sql|sh|py|ya?ml|json)$/.test(path) || path.startsWith('scripts/'))
      .filter((path) => statSync(join(root, path)).isFile())
      .flatMap((path) => textOf(path).match(/#?[A-Za-z_$][\w$]*/g) ?? []),
  )
  expect(missing(symbolsIn, (name) => words.has(name))).toEqual([])
})

test('every link leads to a file', () => {
  const links = (text: string) => [...text.matchAll(/\]\((?!https?:)([^)#]+)[^)]*\)/g)].map(([, link]) => link!)
  expect(missing(links, (link, page) => existsSync(join(root, dirname(page), link)))).toEqual([])
})

test('every npm script that a page names exists', () => {
  const { scripts } = JSON.parse(textOf('package.json')) as { scripts: Record<string, string> }
  const named = (text: string) => [...text.matchAll(/\bnpm run ([\w:-]+)/g)].map(([, name]) => name!)
  expect(missing(named, (name) => Object.hasOwn(scripts, name))).toEqual([])
})

test('every setting that a page names is read somewhere', () => {
  const read = new Set(
    files
      .filter((path) => (path.endsWith('.ts') && !path.endsWith('.test.ts')) || path === 'docs/configuration.md')
      .flatMap((path) => settingsIn(textOf(path))),
  )
  expect(missing(settingsIn, (name) => read.has(name))).toEqual([])
})

test('no paragraph has more than 120 words', () => {
  const long = pages.flatMap((page) =>
    paragraphsIn(textOf(page))
      .filter((text) => text.split(/\s+/).length > 120)
      .map((text) => `${page}: ${text.slice(0, 60)}…`),
  )
  expect(long).toEqual([])
})

test('every dependency has a row in decision 6', () => {
  const page = textOf('docs/decisions/0006-dependencies.md')
  const known = new Set(page.match(/(?<=[ |])@?[\w./-]+(?=[,| ])/g))
  const used = files.filter((path) => path.endsWith('package.json')).flatMap(dependenciesIn)
  expect([...new Set(used)].filter((name) => !known.has(name))).toEqual([])
})

/** Also each item of a list. Code and tables are none. */
function paragraphsIn(text: string): string[] {
  const prose = text.replaceAll(/^ *```.*?^ *```$/gms, '').replaceAll(/^ *\|.*$/gm, '')
  return prose
    .split(/\n\s*\n|\n(?= *(?:[-*]|\d+\.) )/)
    .map((paragraph) => paragraph.trim())
    .filter(Boolean)
}

/** What the pages name and is not there, as `page: name`. */
function missing(namesIn: (text: string) => string[], exists: (name: string, page: string) => boolean): string[] {
  return pages.flatMap((page) => {
    const names = namesIn(textOf(page)).filter((name) => !exists(name, page))
    return names.map((name) => `${page}: ${name}`)
  })
}

const settingsIn = (text: string): string[] => text.match(/\bDORMOUSE_[A-Z_]+\b/g) ?? []

/** Names that only code has: `#private`, `camelCase` and `PascalCase`, also with what is called or read of them. */
const symbolsIn = (text: string): string[] =>
  quotesIn(text).flatMap((quote) => (/^(#?[a-z]\w*|[A-Z][a-z]+[A-Z]\w*)([.(].*)?$/.test(quote) ? namesIn(quote) : []))

const namesIn = (quote: string): string[] => quote.match(/#[a-z]\w*|\b[A-Za-z][a-z]+[A-Z]\w*/g) ?? []

const quotesIn = (text: string): string[] => [...text.matchAll(/`([^`\n]+)`/g)].map(([, quote]) => quote!)

/** From the root, from the page's own folder or, where only the end of a path is named, anywhere. */
const isThere = (path: string, page: string): boolean =>
  existsSync(join(root, path)) ||
  existsSync(join(root, dirname(page), path)) ||
  files.some((file) => file.endsWith(`/${path}`))

function dependenciesIn(path: string): string[] {
  const { dependencies = {}, devDependencies = {} } = JSON.parse(textOf(path)) as Record<string, object>
  const names = Object.keys({ ...dependencies, ...devDependencies })
  return names.filter((name) => !/^@(dormouse|types)\//.test(name))
}
