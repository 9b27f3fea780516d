// Guarantee: the SDK's package is whole: a project that has nothing but the packed file installs it, type-checks and runs.
import { execFileSync, spawnSync } from 'node:child_process'
import { globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { buildClient } from './client.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))

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

test('a project outside of the workspace installs the packed SDK, and the compiler and Node take it', () => {
  const folder = mkdtempSync(join(tmpdir(), 'dormouse-package-'))
  const run = (command: string, ...words: string[]) =>
    execFileSync(command, words, { cwd: folder, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })
  try {
    buildClient(join(folder, 'built'))
    const [packed] = JSON.parse(run('npm', 'pack', './built', '--json')) as [
      { filename: string; files: { path: string }[] },
    ]
    writeFileSync(join(folder, 'package.json'), JSON.stringify({ name: 'elsewhere', private: true, type: 'module' }))
    run('npm', 'install', '--offline', '--no-audit', '--no-fund', packed.filename)
    const installed = join(folder, 'node_modules/@dormouse/client')
    expect(JSON.parse(readFileSync(join(installed, 'package.json'), 'utf8'))).not.toHaveProperty('dependencies')
    expect(packed.files.map(({ path }) => path)).toEqual(expect.arrayContaining(['LICENSE', 'README.md', 'index.d.ts']))
    writeFileSync(join(folder, 'example.ts'), example)
    const strict = ['--strict', '--noEmit', '--target', 'es2024', '--lib', 'es2024,dom', '--types', '']
    const tsc = join(root, 'node_modules/typescript/bin/tsc')
    for (const [module, resolution] of [
      ['nodenext', 'nodenext'],
      ['esnext', 'bundler'],
    ] as const)
      run(process.execPath, tsc, ...strict, '--module', module, '--moduleResolution', resolution, 'example.ts')
    const said = run(
      process.execPath,
      '-e',
      `import('@dormouse/client').then((sdk) => sdk.Desktop.create({ teir: 'small' })).catch((error) => console.log(error.message))`,
    )
    expect(said).toBe('Desktop.create has no option "teir"; did you mean "tier"?\n')
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})

test('the sources of a workspace are not packed in silence: npm says how a package is made', () => {
  const workspaces = [
    ...globSync('packages/*/package.json', { cwd: root }),
    ...globSync('apps/*/package.json', { cwd: root }),
  ]
  for (const file of workspaces)
    expect([file, JSON.parse(readFileSync(join(root, file), 'utf8')).scripts.prepack]).toEqual([
      file,
      expect.stringContaining('exit 1'),
    ])
  const { status, stderr } = spawnSync('npm', ['pack', './packages/client', '--dry-run'], {
    cwd: root,
    encoding: 'utf8',
  })
  expect([status === 0, stderr]).toEqual([false, expect.stringContaining('npm pack ./packages/client/dist')])
})
