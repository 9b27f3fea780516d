// Guarantee: nobody imports what the rules forbid, not even a type, and each rule notices what it is for.
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { violations } from './cruise.ts'
import { forbidden } from './rules.ts'

const root = join(import.meta.dirname, '../..')

test('no import of ours is forbidden, and there are no circles', async () => {
  const { files, found } = await violations(root, ['apps', 'packages', 'scripts', 'infra', 'test'], forbidden)
  expect(files).toContain('test/structure/arrows.test.ts')
  expect(files).toContain('apps/agent/src/main.ts')
  expect(found.map(({ sentence }) => sentence)).toEqual([])
})

const allowed = {
  'packages/contract/src/b.ts': `import { z } from 'zod'\nexport type B = z.infer<never>`,
  'node_modules/zod/index.js': 'export const z = 1',
  'packages/contract/src/a.test.ts': `import { readFileSync } from 'node:fs'`,
  'packages/client/src/b.ts': `import { a } from '@dormouse/contract'`,
  'apps/cli/src/b.ts': `import { c } from './c.ts'`,
  'apps/cli/src/c.ts': `export const c = 1`,
  'apps/control-plane/src/context.ts': `import './usage/a.ts'\nimport './config.ts'`,
  'apps/control-plane/src/config.ts': '',
  'apps/control-plane/src/usage/a.ts': '',
  'apps/control-plane/src/guest/a.ts': '',
  'apps/control-plane/src/desktops/store.ts': `import '../hosts/c.ts'`,
  'apps/control-plane/src/desktops/a.test.ts': `import '../guest/a.ts'`,
  'apps/control-plane/src/hosts/c.ts': '',
  'apps/agent/src/guest/b.ts': `import '../driver/b.ts'`,
  'apps/agent/src/driver/b.ts': '',
  'apps/agent/src/driver/libvirt/a.ts': `import { a } from '@dormouse/node-libvirt'`,
  'scripts/b.ts': `import { type A } from './a.ts'`,
  'packages/contract/src/index.ts': 'export const a = 1',
  'packages/link/src/index.ts': 'export const a = 1',
  'packages/node-libvirt/src/index.ts': 'export const a = 1',
  'apps/agent/src/index.ts': 'export const a = 1',
}

const layer = (number: number) => `what layer ${number} of apps/control-plane/src may import`

const wrong: [path: string, text: string, rule: string][] = [
  ['apps/cli/src/a.ts', `import { a } from '../../agent/src/index.ts'`, 'apps stand alone'],
  ['apps/viewer/src/a.ts', `import '@dormouse/agent'`, 'apps stand alone'],
  ['packages/link/src/a.ts', `export * from '@dormouse/agent'`, 'no package imports an app'],
  ['packages/link/src/b.ts', `import type { A } from '@dormouse/contract'`, 'what link may import'],
  ['packages/client/src/a.ts', `const a = await import('@dormouse/link')`, 'what client may import'],
  ['apps/agent/src/a.ts', `import '../../../packages/link/src/index.ts'`, 'packages are imported by name'],
  ['packages/contract/src/a.ts', `import { readFile } from 'node:fs'`, 'the contract imports only zod'],
  ['apps/control-plane/src/desktops/a.ts', `import '../guest/a.ts'`, layer(5)],
  ['apps/control-plane/src/desktops/b.ts', `export type A = import('../guest/a.ts').A`, layer(5)],
  ['apps/control-plane/src/hosts/a.ts', `import '../ledger/a.ts'`, layer(4)],
  ['apps/control-plane/src/ledger/a.ts', `import '../config.ts'`, layer(4)],
  ['apps/control-plane/src/db/a.ts', `import '../attic/a.ts'`, layer(0)],
  ['apps/control-plane/src/attic/a.ts', `import './nothing.ts'`, 'imports resolve'],
  ['apps/agent/src/driver/a.ts', `import type { B } from '../guest/b.ts'`, 'what layer 2 of apps/agent/src may import'],
  ['apps/agent/src/guest-agent/a.ts', `import { a } from '@dormouse/node-libvirt'`, 'one door to libvirt'],
  // One circle is reported once.
  ['scripts/a.ts', `import type { B } from './b.ts'`, 'no circles'],
]

test('each rule notices what it forbids, and nothing else', async () => {
  const tree = realpathSync(mkdtempSync(join(tmpdir(), 'dormouse-arrows-')))
  const write = (path: string, text: string) => {
    mkdirSync(dirname(join(tree, path)), { recursive: true })
    writeFileSync(join(tree, path), text)
  }
  try {
    for (const [path, text] of [...Object.entries(allowed), ...wrong]) write(path, text)
    write('package.json', JSON.stringify({ workspaces: ['packages/*', 'apps/*'], dependencies: { zod: '*' } }))
    mkdirSync(join(tree, 'node_modules/@dormouse'), { recursive: true })
    for (const folder of ['packages/contract', 'packages/link', 'packages/node-libvirt', 'apps/agent']) {
      const name = `@dormouse/${folder.split('/')[1]}`
      write(`${folder}/package.json`, JSON.stringify({ name, exports: { '.': './src/index.ts' } }))
      symlinkSync(join(tree, folder), join(tree, 'node_modules', name))
    }
    const { found } = await violations(tree, ['apps', 'packages', 'scripts'], forbidden)
    expect(found.map(({ rule, from }) => `${from}: ${rule}`).sort()).toEqual(
      wrong.map(([path, , rule]) => `${path}: ${rule}`).sort(),
    )
  } finally {
    rmSync(tree, { recursive: true, force: true })
  }
})
