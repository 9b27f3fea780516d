// Guarantee: the control plane and the agent send HTTP requests by one function, which always settles (`packages/process`).
import { globSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'

const otherWays = [
  [/(?<![.\w#])fetch\(/, 'fetch('],
  [/\bimport (?!type )[^\n]*\b(get|request)\b[^\n]* from 'node:https?'/, 'a request of node:http'],
  [/\b(http|https)\.(get|request)\(/, 'a request of node:http'],
  [/from 'undici'/, 'undici'],
] as const

test('no file of a program sends a request by other means', () => {
  const files = globSync(['apps/control-plane/src/**/*.ts', 'apps/agent/src/**/*.ts'])
  expect(files.length).toBeGreaterThan(300)
  const found = files
    .filter((file) => !file.endsWith('.test.ts') && !file.includes('/testing/'))
    .flatMap((file) => {
      const text = readFileSync(file, 'utf8')
      return otherWays.filter(([way]) => way.test(text)).map(([, name]) => `${file}: ${name}`)
    })
  // A key set names its own function so.
  expect(found.filter((line) => !line.includes('principals/signing-keys.ts'))).toEqual([])
})
