// `npm run docs`: writes the pages of docs/ that are generated from the code, or lists those that are out of date.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { configurationPage } from './docs/configuration.ts'
import { performancePage } from './docs/performance/page.ts'
import { refusalsPage } from './docs/refusals.ts'
import { statesPage } from './docs/states.ts'

const help = `npm run docs               write the generated pages of docs/
npm run docs -- --check    write nothing; fail if one of them is out of date`

/** The function that generates each page, by the page's path. */
export const pages: Record<string, () => string> = {
  'docs/refusals.md': refusalsPage,
  'docs/states.md': statesPage,
  'docs/configuration.md': configurationPage,
  'docs/performance.md': performancePage,
}

const fileOf = (page: string) => new URL(`../${page}`, import.meta.url)

/** The pages whose files are out of date. */
export const stalePages = (): string[] =>
  Object.entries(pages).flatMap(([page, make]) => (textOf(page) === make() ? [] : [page]))

function textOf(page: string): string | undefined {
  try {
    return readFileSync(fileOf(page), 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

function main(): void {
  const { values } = parseArgs({ options: { help: { type: 'boolean', short: 'h' }, check: { type: 'boolean' } } })
  if (values.help) console.log(help)
  else if (values.check) compare()
  else write()
}

function write(): void {
  for (const page of stalePages()) {
    mkdirSync(new URL('.', fileOf(page)), { recursive: true })
    writeFileSync(fileOf(page), pages[page]!())
    console.log(`wrote ${page}`)
  }
}

function compare(): void {
  const stale = stalePages()
  for (const page of stale) console.log(`${page} is out of date`)
  if (stale.length > 0) process.exitCode = 1
}

if (import.meta.main) main()
