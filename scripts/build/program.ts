// Makes an npm package of a command that users install: one file that Node from 20.19 on runs, without
// dependencies, and what npm shows of it.
import { chmodSync, cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import { oneFile } from './one-file.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))

/** The oldest Node on which the packages run: it loads ES modules by `require`. */
export const nodeMin = '20.19'

/** What newer Nodes have, for those that lack it. Only a program may add to its platform. */
const forOlderNodes = `
Promise.withResolvers ??= function () {
  let ends
  const promise = new this((resolve, reject) => { ends = { resolve, reject } })
  return { promise, ...ends }
}
Array.fromAsync ??= async function (items) {
  const all = []
  for await (const item of items) all.push(item)
  return all
}
Map.groupBy ??= function (items, keyOf) {
  const groups = new Map()
  for (const item of items) {
    const key = keyOf(item)
    if (groups.has(key)) groups.get(key).push(item)
    else groups.set(key, [item])
  }
  return groups
}`

/** An older Node says what it needs, and gets no syntax error: what is imported is looked up only by the code below. */
const banner = `#!/usr/bin/env node
import { createRequire as requireFrom } from 'node:module'
const require = requireFrom(import.meta.url)${forOlderNodes}`

/** The commands that are packages, by their workspaces. The server for agents is a command of the CLI. */
const commands: Record<string, { name: string; entry: string }> = {
  'apps/cli': { name: 'dormouse', entry: `import { main } from './src/main.ts'\nawait main()` },
  'packages/mcp': {
    name: 'dormouse-mcp',
    entry: `import { main } from '../../apps/cli/src/main.ts'\nprocess.argv.splice(2, 0, 'mcp')\nawait main()`,
  },
}

/** Builds the package of a workspace into the folder. */
export async function buildProgram(workspace: string, folder: string): Promise<void> {
  const source = join(root, workspace)
  const command = commands[workspace]!
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
  await build({
    ...oneFile,
    stdin: { contents: command.entry, resolveDir: source, sourcefile: 'entry.ts', loader: 'ts' },
    outfile: join(folder, `${command.name}.js`),
    target: `node${nodeMin}`,
    banner: { js: banner },
    minify: true,
    keepNames: true,
    legalComments: 'eof',
    logLevel: 'warning',
  })
  chmodSync(join(folder, `${command.name}.js`), 0o755)
  const { name, version, description, license } = JSON.parse(readFileSync(join(source, 'package.json'), 'utf8'))
  const packed = {
    ...{ name, version, description, license, type: 'module' },
    bin: { [command.name]: `${command.name}.js` },
    files: [`${command.name}.js`],
    engines: { node: `>=${nodeMin}` },
  }
  writeFileSync(join(folder, 'package.json'), `${JSON.stringify(packed, null, 2)}\n`)
  cpSync(join(source, 'README.md'), join(folder, 'README.md'))
  cpSync(join(root, 'LICENSE'), join(folder, 'LICENSE'))
}

if (import.meta.main) await buildProgram(relative(root, process.cwd()), join(process.cwd(), 'dist'))
