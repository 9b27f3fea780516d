// Guarantee: `npm run release` writes the files of a version and nothing else, the same bytes wherever and by whomever it is run, and
// lintian finds nothing in its packages.
import { execFileSync, spawnSync } from 'node:child_process'
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { release } from '@dormouse/process'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { requireTools } from '../integration/parts/tools.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))
const folder = mkdtempSync('/var/tmp/dormouse-release-')
const elsewhere = join(folder, 'another checkout')
const minutes = 60_000

/** The sources as they are, committed or not, and a copy of what npm has installed. */
beforeAll(() => {
  execFileSync('git', ['clone', '--quiet', root, elsewhere])
  const files = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], { cwd: root })
  for (const name of files.toString().split('\0'))
    if (name) cpSync(join(root, name), join(elsewhere, name), { verbatimSymlinks: true })
  const installed = execFileSync('find', ['.', '-maxdepth', '3', '-name', 'node_modules', '-prune'], { cwd: root })
  for (const name of installed.toString().trim().split('\n'))
    execFileSync('cp', ['-a', join(root, name), join(elsewhere, name)])
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** Returns the table that it prints. */
function make(checkout: string, out: string, umask: string, env: Record<string, string>): string {
  const words = ['-c', `umask ${umask}; exec "$0" scripts/release.ts --out "$1"`, process.execPath, out]
  const own = { ...process.env, SOURCE_DATE_EPOCH: '1790000000', ...env }
  return execFileSync('sh', words, { cwd: checkout, env: own, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })
}

test('two releases, of two people in two folders, are the same bytes', { timeout: 15 * minutes }, (context) => {
  requireTools(context, 'mmdebstrap', 'umoci')
  const [one, other] = [join(folder, 'one'), join(folder, 'other')]
  const table = make(root, one, '022', { TZ: 'UTC' })
  make(elsewhere, other, '077', { TZ: 'Asia/Tokyo', TMPDIR: folder })
  const debian = ['dormouse', 'dormouse-agent', 'dormouse-control-plane'].map(
    (name) => `${name}_${release.version}_amd64`,
  )
  const image = `dormouse-control-plane_${release.version}.oci`
  const npm = ['client', 'dormouse', 'mcp']
  const made = [...npm.map((name) => `${name}.tgz`), ...debian.map((name) => `${name}.deb`), `${image}.tar`]
  const parts = [...npm, ...debian, image].map((name) => `${name}.cdx.json`)
  const all = ['SHA256SUMS', ...made, ...parts].sort()
  expect(readdirSync(one).sort()).toEqual(all)
  expect(table.match(/^\S+/gm)?.sort()).toEqual(all)
  expect(readdirSync(other).sort()).toEqual(all)
  expect(all.filter((name) => !readFileSync(join(one, name)).equals(readFileSync(join(other, name))))).toEqual([])
  execFileSync('sha256sum', ['--check', '--strict', 'SHA256SUMS'], { cwd: one, stdio: 'ignore' })
  expect(readFileSync(join(one, 'SHA256SUMS'), 'utf8').trim().split('\n')).toHaveLength(made.length + parts.length)
})

test('lintian finds nothing', { timeout: 5 * minutes }, (context) => {
  requireTools(context, 'lintian')
  const files = readdirSync(join(folder, 'one')).filter((name) => name.endsWith('.deb'))
  expect(files).toHaveLength(3)
  const { stdout, status } = spawnSync('lintian', ['--allow-root', ...files], {
    cwd: join(folder, 'one'),
    encoding: 'utf8',
  })
  expect([status, stdout]).toEqual([0, ''])
})
