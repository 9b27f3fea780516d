// Guarantee: each file of ours has a place, a name that says something, a head comment, and at most 600 lines.
import { globSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { layerPlans, packageArrows } from './rules.ts'

const root = join(import.meta.dirname, '../..')
const emptyNames = new Set(['util', 'utils', 'common', 'helper', 'helpers', 'types'])
const maxLines = 600

/** From a file to what is wrong with it. */
type Rule = (path: string, text: string) => string | undefined

const namesSaySomething: Rule = (path) => {
  const empty = path.split('/').find((part) => emptyNames.has(part.replace(/(?:\.test)?\.ts$/, '')))
  if (empty) return `"${empty}" says nothing; name it after what it does`
  return /\/[a-z0-9]+(?:-[a-z0-9]+)*(?:\.test|\.config|\.d)?\.ts$/.test(path) ? undefined : 'file names are kebab-case'
}

const startsWithComment: Rule = (path, text) => {
  if (path.endsWith('.test.ts') || /^(#!.*\n)?\s*\/[/*]/.test(text)) return undefined
  return 'does not start with a comment; say first what the file is for'
}

const shortEnough: Rule = (_path, text) => {
  const lines = text.split('\n').length - (text.endsWith('\n') ? 1 : 0)
  return lines <= maxLines ? undefined : `has ${lines} lines, over ${maxLines}; split it`
}

const ours = globSync('{apps,packages,scripts,infra,test}/**/*.ts', {
  cwd: root,
  exclude: (path) => /(^|\/)(node_modules|dist|\..+)$/.test(path),
})

test.each<[rule: Rule]>([[namesSaySomething], [startsWithComment], [shortEnough]])('%o holds everywhere', (rule) => {
  expect(ours).toContain('test/structure/files.test.ts')
  const wrong = ours.map((path) => [path, rule(path, readFileSync(join(root, path), 'utf8'))] as const)
  expect(wrong.filter(([, complaint]) => complaint)).toEqual([])
})

test.each<[rule: Rule, path: string, text: string, complaint: string | undefined]>([
  [namesSaySomething, 'apps/agent/src/utils/a.ts', '', '"utils" says nothing'],
  [namesSaySomething, 'apps/agent/src/types.ts', '', '"types.ts" says nothing'],
  [namesSaySomething, 'apps/agent/src/myFile.ts', '', 'kebab-case'],
  [namesSaySomething, 'apps/agent/vite.config.ts', '', undefined],
  [startsWithComment, 'scripts/a.ts', `#!/usr/bin/env node\nimport 'a'`, 'does not start with a comment'],
  [startsWithComment, 'scripts/a.ts', '#!/usr/bin/env node\n// Starts.\n', undefined],
  [shortEnough, 'scripts/a.ts', '\n'.repeat(601), 'has 601 lines'],
  [shortEnough, 'scripts/a.ts', '\n'.repeat(600), undefined],
])('%o of %s', (rule, path, text, complaint) => {
  if (complaint) expect(rule(path, text)).toContain(complaint)
  else expect(rule(path, text)).toBeUndefined()
})

test.each(layerPlans)('every module of $src has one layer', ({ src, layers }) => {
  const modules = readdirSync(join(root, src)).map((name) => name.replace(/(\.test)?\.ts$/, ''))
  expect(layers.flat().toSorted()).toEqual([...new Set(modules)].toSorted())
})

test('every package has a place', () => {
  expect(Object.keys(packageArrows).toSorted()).toEqual(readdirSync(join(root, 'packages')).toSorted())
})
