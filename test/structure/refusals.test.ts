// Guarantee: the control plane passes on each code with which an agent refuses. It shows any other one as a fault of the
// hypervisor, and no operation would recognise it.
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'

const root = join(import.meta.dirname, '../..')
const textOf = (path: string) => readFileSync(join(root, path), 'utf8')
const codesIn = (text: string, form: RegExp) => [...text.matchAll(form)].map(([, code]) => code!)

test('the control plane knows the codes of agents', () => {
  const sources = globSync('apps/agent/src/**/*.ts', { cwd: root, exclude: (path) => path.endsWith('.test.ts') })
  const used = sources.flatMap((path) => codesIn(textOf(path), /(?:\brefuse|new Refusal)\(\s*'([a-z_]+)'/g))
  const [, list] = /const hostsMayRefuse\b[^[]*\[([^\]]*)\]/.exec(textOf('apps/control-plane/src/agents/links.ts'))!
  const known = new Set(codesIn(list!, /'([a-z_]+)'/g))
  expect(used.length).toBeGreaterThan(100)
  expect([...new Set(used)].filter((code) => !known.has(code))).toEqual([])
})
