// Guarantee: the files, symbols, links, npm scripts, settings and commands that the pages name exist, ARCHITECTURE.md names
// every part, each dependency has a reason, and no paragraph is long.
import { existsSync, globSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import type { Context } from '../../apps/cli/src/context.ts'
import { createProgram } from '../../apps/cli/src/program.ts'
import { layerPlans } from './rules.ts'

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

test('every command and option that a page names exists', () => {
  expect(missing(commandsIn, (line) => unknownIn(line.split(' ').slice(1)) === undefined)).toEqual([])
})

test('ARCHITECTURE.md names every app, package and module, and counts the apps and packages', () => {
  const page = textOf('ARCHITECTURE.md')
  const [apps, packages] = ['apps', 'packages'].map((folder) => readdirSync(join(root, folder)))
  const named = [...apps!.map((name) => `apps/${name}`), ...packages!.map((name) => `packages/${name}`)]
  expect(named.filter((path) => !page.includes(`| \`${path}\` |`))).toEqual([])
  expect(page).toContain(`${numbers[apps!.length]} apps and ${numbers[packages!.length]} packages`)
  const words = new Set(quotesIn(page).flatMap((quote) => quote.split(' ')))
  const modules = layerPlans.flatMap(({ layers }) => layers.flat()).filter((module) => module !== 'testing')
  expect(modules.filter((module) => !words.has(module))).toEqual([])
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

const numbers = ['no', 'one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight', 'nine', 'ten']

/** `dormouse …` in backticks and in blocks of code; without what follows `--`, which another program reads. */
const commandsIn = (text: string): string[] =>
  [...quotesIn(text), ...text.split('\n')]
    .map((line) => /^ *(?:npx )?(dormouse [a-z].*)/.exec(line)?.[1])
    .filter((line) => line !== undefined)
    .map((line) =>
      line
        .replaceAll(/'[^']*'|"[^"]*"/g, '…')
        .replace(/ (--|#|[|<>])( .*)?$/, '')
        .trimEnd(),
    )

const program = createProgram({ terminal: {} } as Context)

/** The first word that is no command, or the first option that the command does not have. */
function unknownIn(words: string[], command = program): string | undefined {
  const below = command.commands.find((each) => each.name() === words[0])
  if (below) return unknownIn(words.slice(1), below)
  if (command.commands.length > 0 && words.length > 0 && !words[0]!.startsWith('-')) return words[0]
  const has = (flag: string) =>
    [...program.options, ...command.options].some(({ long, short }) => long === flag || short === flag)
  return words.filter((word) => /^--?[a-z]/.test(word)).find((flag) => !has(flag))
}

const settingsIn = (text: string): string[] => text.match(/\bDORMOUSE_[A-Z_]+\b/g) ?? []

/** Names that only code has: `#private`, `camelCase` and `PascalCase`, also with what is called or read of them. */
const symbolsIn = (text: string): string[] =>
  quotesIn(text).flatMap((quote) => (/^(#?[a-z]\w*|[A-Z][a-z]+[A-Z]\w*)([.(].*)?$/.test(quote) ? namesIn(quote) : []))

const namesIn = (quote: string): string[] => quote.match(/#[a-z]\w*|\b[A-Za-z][a-z]+[A-Z]\w*/g) ?? []

const quotesIn = (text: string): string[] => [...text.matchAll(/`([^`\n]+)`/g)].map(([, quote]) => quote!)

/** From the root, from the page's own folder or, if only the end of a path is named, anywhere. */
const isThere = (path: string, page: string): boolean =>
  existsSync(join(root, path)) ||
  existsSync(join(root, dirname(page), path)) ||
  files.some((file) => file.endsWith(`/${path}`))

function dependenciesIn(path: string): string[] {
  const { dependencies = {}, devDependencies = {} } = JSON.parse(textOf(path)) as Record<string, object>
  const names = Object.keys({ ...dependencies, ...devDependencies })
  return names.filter((name) => !/^@(dormouse|types)\//.test(name))
}
