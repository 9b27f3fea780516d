// Guarantee: the wings of the control plane are removed by deleting their folders and their lines in `wings.ts`; the rest still
// type-checks. All at once: none may import another (arrows.test.ts), so each can also go alone.
import { execFile } from 'node:child_process'
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'

const root = join(import.meta.dirname, '../..')
const app = join(root, 'apps/control-plane')
const wings = [
  'bulk',
  'copies',
  'drains',
  'figures',
  'idle',
  'input',
  'keys',
  'mcp',
  'quotas',
  'schedules',
  'suspensions',
  'terminals',
  'upgrades',
  'wake-on-use',
  'webhooks',
]

let scratch: string
beforeAll(async () => {
  scratch = await mkdtemp(join(tmpdir(), 'dormouse-wings-'))
})
afterAll(() => rm(scratch, { recursive: true }))

test('without the wings, the rest type-checks', { timeout: 300_000 }, async () => {
  await copyWithoutWings()
  const tsc = join(root, 'node_modules/.bin/tsc')
  const { stdout } = await promisify(execFile)(tsc, ['--noEmit', '-p', scratch]).catch((failed) => failed)
  expect(stdout).toBe('')
})

const camel = (name: string): string => name.replace(/-(\w)/g, (_, letter: string) => letter.toUpperCase())

async function copyWithoutWings(): Promise<void> {
  const gone = wings.map((wing) => join(app, 'src', wing))
  const keeps = (path: string) => !gone.includes(path) && !path.endsWith('.test.ts')
  await cp(join(app, 'src'), join(scratch, 'src'), { recursive: true, filter: keeps })
  await cp(join(app, 'package.json'), join(scratch, 'package.json'))
  await symlink(join(root, 'node_modules'), join(scratch, 'node_modules'))
  const config = { extends: join(root, 'tsconfig.base.json'), include: ['src'] }
  await writeFile(join(scratch, 'tsconfig.json'), JSON.stringify(config))
  const list = join(scratch, 'src/wings.ts')
  const lines = (await readFile(list, 'utf8')).split('\n')
  const namesWing = new RegExp(`'\\./(${wings.join('|')})/wing\\.ts'|^  (${wings.map(camel).join('|')}): open`)
  expect(lines.filter((line) => namesWing.test(line))).toHaveLength(2 * wings.length)
  await writeFile(list, lines.filter((line) => !namesWing.test(line)).join('\n'))
}
