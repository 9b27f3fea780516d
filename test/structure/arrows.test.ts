// Guarantee: the sources keep the arrows, names and sizes of the house, and the rules that see to it are awake.
import { expect, test } from 'vitest'
import type { Rule } from './rules.ts'
import * as rules from './rules.ts'
import { importsOf, readSources } from './sources.ts'

const sources = await readSources()

test('there are sources to judge', () => {
  expect(sources.map(({ path }) => path)).toContain('test/structure/arrows.test.ts')
})

test.each<[guarantee: string, rule: Rule]>([
  ['nothing imports an app', rules.appsApart],
  ['packages import no more of ours than their place allows, and by name', rules.packagesInOrder],
  ['every package has a place', rules.packagesKnown],
  ['the contract imports zod only', rules.contractIsPure],
  ['the floors of the control plane open downwards only', rules.floorsOpenDownwards],
  ['only the libvirt driver imports node-libvirt', rules.oneDoorToLibvirt],
  ['names say something', rules.namesSaySomething],
  ['every file starts by saying what it is for', rules.startsWithItsRoom],
  ['no file is over 400 lines', rules.shortEnough],
])('%s', (_guarantee, rule) => {
  const complaints = sources.flatMap(rule)
  expect(complaints, complaints.join('\n')).toEqual([])
})

test.each<[rule: Rule, path: string, text: string, complaint: string]>([
  [rules.appsApart, 'apps/cli/src/main.ts', `import { a } from '../../agent/src/a.ts'`, 'Nothing imports an app'],
  [rules.appsApart, 'apps/agent/src/main.ts', `import '@dormouse/control-plane'`, 'Nothing imports an app'],
  [rules.appsApart, 'packages/link/src/a.ts', `export * from 'dormouse'`, 'Nothing imports an app'],
  [rules.packagesInOrder, 'packages/link/src/a.ts', `import type { A } from '@dormouse/contract'`, 'nothing'],
  [rules.packagesInOrder, 'packages/client/src/a.ts', `const a = await import('@dormouse/link')`, 'contract'],
  [
    rules.packagesInOrder,
    'apps/agent/src/a.ts',
    `import { a } from '../../../packages/link/src/peer.ts'`,
    'by its name',
  ],
  [rules.packagesKnown, 'packages/novelty/src/a.ts', '', 'no place yet'],
  [rules.contractIsPure, 'packages/contract/src/a.ts', `import { readFile } from 'node:fs'`, 'zod only'],
  [
    rules.floorsOpenDownwards,
    'apps/control-plane/src/desktops/a.ts',
    `import '../guest/a.ts'`,
    'floor 2) may not open guest (floor 3',
  ],
  [rules.floorsOpenDownwards, 'apps/control-plane/src/hosts/a.ts', `import '../images/a.ts'`, 'may not open'],
  [rules.floorsOpenDownwards, 'apps/control-plane/src/hosts/a.ts', `import '../context.ts'`, 'the roof'],
  [rules.floorsOpenDownwards, 'apps/control-plane/src/db/a.ts', `import '../http/a.ts'`, 'the ground'],
  [rules.floorsOpenDownwards, 'apps/control-plane/src/attic/a.ts', '', 'has no floor yet'],
  [rules.floorsOpenDownwards, 'apps/control-plane/src/odd.ts', '', 'has no floor yet'],
  [
    rules.oneDoorToLibvirt,
    'apps/agent/src/guest-agent/transport.ts',
    `import { a } from '@dormouse/node-libvirt'`,
    'Only apps/agent',
  ],
  [rules.namesSaySomething, 'apps/agent/src/utils/a.ts', '', '"utils" says nothing'],
  [rules.namesSaySomething, 'apps/agent/src/types.ts', '', '"types.ts" says nothing'],
  [rules.namesSaySomething, 'apps/agent/src/myFile.ts', '', 'kebab-case'],
  [rules.startsWithItsRoom, 'scripts/a.ts', `#!/usr/bin/env node\nimport 'a'`, 'does not start with a comment'],
  [rules.shortEnough, 'scripts/a.ts', '\n'.repeat(401), 'has 401 lines'],
])('%o complains about %s', (rule, path, text, complaint) => {
  expect(rule({ path, text })).toEqual([expect.stringContaining(complaint)])
})

test.each<[rule: Rule, path: string, text: string]>([
  [rules.appsApart, 'apps/cli/src/main.ts', `import { a } from './a.ts'`],
  [rules.packagesInOrder, 'packages/client/src/a.ts', `import { a } from '@dormouse/contract'`],
  [rules.contractIsPure, 'packages/contract/src/a.ts', `import { z } from 'zod'\nimport { b } from './b.ts'`],
  [rules.floorsOpenDownwards, 'apps/control-plane/src/context.ts', `import './usage/a.ts'\nimport './config.ts'`],
  [
    rules.floorsOpenDownwards,
    'apps/control-plane/src/desktops/operations/wake.ts',
    `import '../store.ts'\nimport '../../hosts/a.ts'`,
  ],
  [rules.oneDoorToLibvirt, 'apps/agent/src/driver/libvirt/a.ts', `import { a } from '@dormouse/node-libvirt'`],
  [rules.startsWithItsRoom, 'scripts/a.ts', '#!/usr/bin/env node\n// Starts.\n'],
  [rules.shortEnough, 'scripts/a.ts', '\n'.repeat(400)],
])('%o lets %s pass', (rule, path, text) => {
  expect(rule({ path, text })).toEqual([])
})

test('imports are found in every form, and nothing else is taken for one', () => {
  const text = `
    import a from 'a'
    import {
      b,
      type B,
    } from "b"
    import type { C } from './c.ts'
    export { d } from '../d.ts'
    export * from 'e'
    import 'f'
    const g = await import('g')
    const said = "we import from 'nowhere'"
    // import from 'a comment'
    export const h = from('h')
  `
  const found = importsOf({ path: 'packages/link/src/a.ts', text })
  expect(found.sort()).toEqual(['a', 'b', 'e', 'f', 'g', 'packages/link/d.ts', 'packages/link/src/c.ts'])
})
