import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { expect, test } from 'vitest'

const root = join(import.meta.dirname, '..')

test.each([
  ['scripts/start.ts', '--simulated=x', '--simulated is "x"; it must be a whole number from 1 to 100'],
  ['test/fuzz/main.ts', '--nope', "unknown option '--nope'"],
  ['test/fuzz/main.ts', '--only=1', '--only needs --mode: each mode counts its own inputs'],
  ['test/fuzz/main.ts', '--seconds=abc', '--seconds is "abc"; it must be a whole number from 1 to 2000000'],
  [
    'test/fuzz/main.ts',
    '--seed=1.5',
    `--seed is "1.5"; it must be a whole number from 0 to ${Number.MAX_SAFE_INTEGER}`,
  ],
  ['test/contract/main.ts', 'nope', "unexpected argument 'nope'"],
])('%s %s: one sentence, and exit code 2', (file, argument, sentence) => {
  const ended = spawnSync(join(root, 'node_modules/.bin/node'), [join(root, file), argument], { encoding: 'utf8' })
  expect([ended.status, ended.stdout, ended.stderr]).toEqual([2, '', `${sentence}; see --help\n`])
})
