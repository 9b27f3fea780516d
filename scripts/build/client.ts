// Makes the SDK's package: JavaScript, and types without imports of ours. The contract that they come from is ours alone and
// made with zod; whoever installs the SDK gets its types written out, and needs neither.
import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { stripTypeScriptTypes } from 'node:module'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { nodeMin } from './program.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))
const source = join(root, 'packages/client')
/** The two ways in which a declaration names types of the contract. The compiler writes the second if it infers a type. */
const fromContract = [
  /(?:import|export) type \{([^}]+)\} from '@dormouse\/contract'/g,
  /import\("@dormouse\/contract"\)\.(\w+)/g,
]

/** Builds the package into the folder: its content can be packed and published as it is. */
export function buildClient(folder: string): void {
  rmSync(folder, { recursive: true, force: true })
  tsc('-p', join(source, 'tsconfig.build.json'), '--outDir', folder)
  const declarations = readdirSync(folder).filter((name) => name.endsWith('.d.ts'))
  const texts = new Map(declarations.map((name) => [name, readFileSync(join(folder, name), 'utf8')]))
  for (const [name, text] of texts) writeFileSync(join(folder, name), standingAlone(text))
  writeFileSync(join(folder, 'wire.d.ts'), writtenOut(namesIn([...texts.values()])))
  takeIn('nearest', folder)
  writeFileSync(join(folder, 'package.json'), `${JSON.stringify(manifest(), null, 2)}\n`)
  cpSync(join(source, 'README.md'), join(folder, 'README.md'))
  cpSync(join(root, 'LICENSE'), join(folder, 'LICENSE'))
}

/** The only code of the contract that the SDK runs: a file without imports of its own. */
function takeIn(name: string, folder: string): void {
  const text = readFileSync(join(root, `packages/contract/src/${name}.ts`), 'utf8')
  writeFileSync(join(folder, `${name}.js`), stripTypeScriptTypes(text))
  for (const file of readdirSync(folder).filter((each) => each.endsWith('.js'))) {
    const script = readFileSync(join(folder, file), 'utf8')
    writeFileSync(join(folder, file), script.replaceAll(`'@dormouse/contract/${name}'`, `'./${name}.js'`))
  }
}

const standingAlone = (text: string): string =>
  text
    .replaceAll(/(['"])@dormouse\/contract\1/g, '$1./wire.js$1')
    .replaceAll(/((?:from |import\()(['"])\.\/[^'"]+)\.ts\2/g, '$1.js$2')

/** The types that the declarations take from the contract. */
function namesIn(texts: string[]): string[] {
  const lists = texts.flatMap((text) =>
    fromContract.flatMap((pattern) => [...text.matchAll(pattern)].map(([, list]) => list!)),
  )
  return [...new Set(lists.flatMap((list) => list.split(',').map((name) => name.trim())))].filter(Boolean).sort()
}

/** The same types without a name of the contract or of zod: the compiler writes out what it infers. */
function writtenOut(names: string[]): string {
  // Below the workspace, so that the contract is found.
  mkdirSync(join(root, 'node_modules/.cache'), { recursive: true })
  const folder = mkdtempSync(join(root, 'node_modules/.cache/wire-'))
  try {
    writeFileSync(join(folder, 'wire.ts'), inferred(names))
    const compilerOptions = {
      noEmit: false,
      declaration: true,
      emitDeclarationOnly: true,
      outDir: 'out',
      rootDir: root,
    }
    const config = { extends: join(root, 'tsconfig.base.json'), compilerOptions, files: ['wire.ts'] }
    writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(config))
    tsc('-p', folder)
    const [made] = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((file) =>
      file.endsWith('/wire.d.ts'),
    )
    const text = readFileSync(join(folder, made!), 'utf8')
    const others = [...text.matchAll(/\bcontract\.(\w+)/g)]
      .map(([, name]) => name!)
      .filter((name) => !names.includes(name))
    if (others.length > 0) return writtenOut([...new Set([...names, ...others])].sort())
    return `// What the service says, as it stands on the wire.\n${onlyTypes(text)}`
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Inside of a type, the compiler may name another one of the contract, which the file then has, too. */
const onlyTypes = (text: string): string =>
  text
    .replaceAll(/^import type .*\n/gm, '')
    .replaceAll(/\bcontract\.(\w+)/g, '$1')
    .replaceAll(/export declare const (\w+): /g, 'export type $1 = ')

const inferred = (names: string[]): string =>
  [
    `import type * as contract from '@dormouse/contract'`,
    'type Plain<T> = T extends infer O ? (O extends object ? { [K in keyof O]: Plain<O[K]> } : O) : never',
    'declare function plain<T>(): Plain<T>',
    ...names.map((name) => `export const ${name} = plain<contract.${name}>()`),
  ].join('\n')

function manifest(): object {
  const { name, version, description, license, type, sideEffects } = JSON.parse(
    readFileSync(join(source, 'package.json'), 'utf8'),
  ) as Record<string, unknown>
  const exports = { '.': { types: './index.d.ts', default: './index.js' } }
  const files = ['*.js', '*.d.ts']
  return { name, version, description, license, type, sideEffects, exports, files, engines: { node: `>=${nodeMin}` } }
}

function tsc(...words: string[]): void {
  execFileSync(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), ...words], { stdio: 'inherit' })
}

if (import.meta.main) buildClient(join(source, 'dist'))
