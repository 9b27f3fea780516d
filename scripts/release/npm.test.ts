// Guarantee: a stranger with an empty folder and the oldest Node that is promised installs each npm package of a release, and uses it in
// JavaScript, in strict TypeScript, in a browser bundle and on the command line. Two releases of one commit are the same bytes.
import { execFileSync, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ensureSdk } from '../build/sdk.ts'
import { nodeFolder, oldestNode } from './node.ts'
import { packNpm } from './npm.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))
const tools = join(root, 'node_modules/.bin')

let folder: string
let packed: string
let oldNode: string
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'dormouse-release-'))
  packed = join(folder, 'packed')
  mkdirSync(packed)
  oldNode = join(nodeFolder(oldestNode), 'bin/node')
  await packNpm(packed, () => undefined)
}, 300_000)
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** A folder of somebody else, with these packages installed. */
function stranger(name: string, ...packages: string[]) {
  const place = join(folder, name)
  mkdirSync(place)
  const run = (command: string, ...words: string[]) =>
    execFileSync(command, words, { cwd: place, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })
  writeFileSync(join(place, 'package.json'), JSON.stringify({ name: 'elsewhere', private: true, type: 'module' }))
  run('npm', 'install', '--offline', '--no-audit', '--no-fund', ...packages.map((each) => join(packed, `${each}.tgz`)))
  return { place, run }
}

const example = `
import { createClient, Desktop, OperationFailedError, type DesktopJson } from '@dormouse/client'

export async function morning(baseUrl: string, apiKey: string): Promise<DesktopJson['state']> {
  const client = createClient({ baseUrl, apiKey })
  const desktop = await Desktop.create({ client, tier: 'small' })
  const { result } = await desktop.wake().catch((error: unknown) => {
    if (error instanceof OperationFailedError && error.code === 'operation_failed') throw error.operation?.error
    throw error
  })
  const from: 'memory' | 'disk' | 'image' | undefined = result?.resumedFrom
  console.log(from, (await desktop.commands.run('uname -a')).stdout)
  // @ts-expect-error: there is no such tier
  await Desktop.create({ client, tier: 'huge' })
  return (await client.getDesktop(desktop.id)).state
}
`

test('the SDK: types, import, require, and a bundle for browsers', { timeout: 120_000 }, async () => {
  const { place, run } = stranger('sdk', 'client')
  const installed = join(place, 'node_modules/@dormouse/client')
  expect(JSON.parse(readFileSync(join(installed, 'package.json'), 'utf8'))).not.toHaveProperty('dependencies')
  writeFileSync(join(place, 'example.ts'), example)
  const strict = ['--strict', '--noEmit', '--target', 'es2024', '--lib', 'es2024,dom', '--types', '']
  const tsc = join(root, 'node_modules/typescript/bin/tsc')
  for (const [module, resolution] of [
    ['nodenext', 'nodenext'],
    ['esnext', 'bundler'],
  ] as const)
    run(process.execPath, tsc, ...strict, '--module', module, '--moduleResolution', resolution, 'example.ts')
  const misuse = `Desktop.create({ teir: 'small' }).catch((error) => console.log(error.message))`
  const said = 'Desktop.create has no option "teir"; did you mean "tier"?\n'
  for (const node of [oldNode, process.execPath]) {
    expect(run(node, '-e', `import('@dormouse/client').then(({ Desktop }) => ${misuse})`)).toBe(said)
    expect(run(node, '--no-warnings', '-e', `const { Desktop } = require('@dormouse/client'); ${misuse}`)).toBe(said)
  }
  const outfile = join(place, 'bundle.js')
  const contents = `import { createClient } from '@dormouse/client'\nconsole.log(createClient)`
  await build({
    stdin: { contents, resolveDir: place },
    ...{ outfile, bundle: true, minify: true, format: 'esm', platform: 'browser', logLevel: 'error' },
  })
  expect(statSync(outfile).size).toBeLessThanOrEqual(120 * 1024)
})

test('the command line and the server for agents run on the oldest Node, and say what to do without a service', () => {
  const { place } = stranger('programs', 'dormouse', 'mcp')
  const env = { PATH: process.env.PATH, HOME: place }
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string }
  for (const [name, words] of [
    ['dormouse', ['list']],
    ['dormouse-mcp', []],
  ] as const) {
    const program = join(place, 'node_modules/.bin', name)
    for (const node of [oldNode, process.execPath]) {
      const run = (...given: string[]) => spawnSync(node, [program, ...given], { cwd: place, env, encoding: 'utf8' })
      const { status, stderr } = run(...words)
      expect([name, status, stderr]).toEqual([name, 6, expect.stringContaining('Next step: ')])
      if (name === 'dormouse') expect(run('--version').stdout).toBe(`${version}\n`)
    }
  }
})

test.each(['client', 'dormouse', 'mcp'])('%s is what npm expects, and holds nothing of its builder', (name) => {
  const { run, place } = stranger(`checked-${name}`, name)
  const file = join(packed, `${name}.tgz`)
  run(join(tools, 'publint'), '--strict', file)
  if (name === 'client') run(join(tools, 'attw'), '--profile', 'esm-only', file)
  const files = globSync('node_modules/{@dormouse/*,dormouse}/**/*', { cwd: place, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
  const names = files.map((each) => each.slice(each.lastIndexOf('/') + 1))
  expect(names).toEqual(expect.arrayContaining(['LICENSE', 'README.md', 'package.json']))
  expect(names.filter((each) => /test|\.map$/.test(each))).toEqual([])
  for (const each of files) expect([each, readFileSync(each, 'utf8').includes(root)]).toEqual([each, false])
})

test('what a control plane serves is the same bytes, made once, each with its parts', {
  timeout: 120_000,
}, async () => {
  const served = join(folder, 'served')
  const said: string[] = []
  await ensureSdk((words) => said.push(words), served)
  await ensureSdk((words) => said.push(words), served)
  expect(said).toHaveLength(3)
  const digestsIn = (place: string) =>
    globSync('*.{tgz,json}', { cwd: place })
      .sort()
      .map((name) => [
        name,
        createHash('sha256')
          .update(readFileSync(join(place, name)))
          .digest('hex'),
      ])
  expect(digestsIn(served)).toEqual(digestsIn(packed))
  expect(digestsIn(packed).map(([name]) => name)).toEqual(
    ['client', 'dormouse', 'mcp'].flatMap((name) => [`${name}.cdx.json`, `${name}.tgz`]),
  )
  const parts = JSON.parse(readFileSync(join(packed, 'dormouse.cdx.json'), 'utf8'))
  expect(parts.metadata.component.name).toBe('dormouse-workspace')
  expect(parts.components.map(({ name }: { name: string }) => name)).toContain('commander')
})

test('the sources of a workspace are not packed in silence: npm says how a package is made', () => {
  for (const file of globSync('{packages,apps}/*/package.json', { cwd: root }))
    expect([file, JSON.parse(readFileSync(join(root, file), 'utf8')).scripts.prepack]).toEqual([
      file,
      expect.stringContaining('exit 1'),
    ])
  const { status, stderr } = spawnSync('npm', ['pack', './packages/client', '--dry-run'], {
    cwd: root,
    encoding: 'utf8',
  })
  expect([status === 0, stderr]).toEqual([false, expect.stringContaining('npm run release')])
})

test('all workspaces have the version of the release', () => {
  const versionOf = (file: string) => JSON.parse(readFileSync(join(root, file), 'utf8')).version
  for (const file of globSync('{packages,apps}/*/package.json', { cwd: root }))
    expect([file, versionOf(file)]).toEqual([file, versionOf('package.json')])
})
