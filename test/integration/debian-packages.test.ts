// Guarantee: the Debian packages of a release contain what they should, and nothing of the machine that made them.
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { globSync, lstatSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { release } from '@dormouse/process'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ensureSdk } from '../../scripts/build/sdk.ts'
import { packDebian } from '../../scripts/release/debian.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))

/** On the disk: they are large. */
const folder = mkdtempSync('/var/tmp/dormouse-packages-')
const tree = join(folder, 'tree')
let files: string[]
let sums: string[]

beforeAll(async () => {
  await ensureSdk(() => undefined)
  const made = join(folder, 'made')
  mkdirSync(made)
  const npm = join(root, 'apps/control-plane/dist/sdk')
  const given = { npm, version: release.version, epoch: 1_790_000_000, uncompressed: true, say: () => undefined }
  files = await packDebian(made, given)
  for (const name of files) execFileSync('dpkg-deb', ['-x', join(made, name), tree])
  const sumOfAgent = () =>
    createHash('sha256')
      .update(readFileSync(join(made, files[1]!)))
      .digest('hex')
  const first = sumOfAgent()
  await packDebian(made, { ...given, names: ['dormouse-agent'] })
  sums = [first, sumOfAgent()]
  rmSync(made, { recursive: true })
}, 300_000)
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const contentOf = (path: string) =>
  globSync('**/*', { cwd: join(tree, path) })
    .filter((name) => lstatSync(join(tree, path, name)).isFile())
    .sort()

test('each has its program with a Node of its own, its unit, its settings and its documentation', () => {
  const names = ['dormouse-control-plane', 'dormouse-agent', 'dormouse']
  expect(files).toEqual(names.map((name) => `${name}_${release.version}_amd64.deb`))
  expect(contentOf('usr/bin')).toEqual(names.toSorted())
  expect(contentOf('usr/lib/dormouse')).toEqual(['dormouse.js', 'node', 'package.json'])
  expect(contentOf('usr/lib/dormouse-agent')).toEqual(['dormouse-agent-upgrade', 'main.js', 'main.js.map', 'node'])
  const served = contentOf('usr/lib/dormouse-control-plane')
  expect(new Set(served.map((path) => path.split('/')[0]))).toEqual(
    new Set([
      'docs',
      'dormouse-backup',
      'dormouse-restore',
      'main.js',
      'main.js.map',
      'migrations',
      'node',
      'sdk',
      'viewer',
    ]),
  )
  expect(served.filter((path) => path.startsWith('sdk/'))).toEqual([
    'sdk/client.tgz',
    'sdk/dormouse.tgz',
    'sdk/mcp.tgz',
  ])
  expect(contentOf('usr/lib/systemd/system')).toEqual([
    'dormouse-agent-upgrade.path',
    'dormouse-agent-upgrade.service',
    'dormouse-agent.service',
    'dormouse-backup.service',
    'dormouse-backup.timer',
    'dormouse-control-plane.service',
    'libvirtd.service.d/dormouse.conf',
  ])
  expect(contentOf('etc')).toEqual(['dormouse/agent.env', 'dormouse/control-plane.env'])
  expect(contentOf('usr/share/man')).toEqual([
    'man1/dormouse.1.gz',
    'man8/dormouse-agent.8.gz',
    'man8/dormouse-control-plane.8.gz',
  ])
  for (const name of names)
    expect(contentOf(`usr/share/doc/${name}`)).toEqual(
      expect.arrayContaining(['changelog.gz', 'copyright', 'parts.cdx.json']),
    )
})

test('two builds are the same bytes', () => {
  expect(sums[1]).toBe(sums[0])
})

test('nothing tells where they were made, and nothing is a test', () => {
  const own = contentOf('').filter((path) => !path.endsWith('/node'))
  expect(own.length).toBeGreaterThan(40)
  const telling = own.filter((path) => [root, folder].some((name) => readFileSync(join(tree, path)).includes(name)))
  expect(telling).toEqual([])
  expect(own.filter((path) => /\.test\.|\.built-from|\.ts$/.test(path))).toEqual([])
})

test('each program says its version by its own Node', () => {
  for (const [name, file] of [
    ['dormouse-control-plane', 'main.js'],
    ['dormouse-agent', 'main.js'],
    ['dormouse', 'dormouse.js'],
  ]) {
    const program = join(tree, 'usr/lib', name!)
    const words = [join(program, file!), '--version']
    expect(execFileSync(join(program, 'node'), words, { encoding: 'utf8', env: {} })).toBe(`${release.version}\n`)
  }
})
