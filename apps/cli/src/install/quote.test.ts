// Guarantee: whatever a word contains, a remote shell takes it for one word and runs none of it.
import { execFileSync } from 'node:child_process'
import { expect, test } from 'vitest'
import { CliError } from '../failures.ts'
import { commandLine } from './quote.ts'
import { readTarget } from './target.ts'

test('arguments arrive as they are', () => {
  const words = ['', ' ', "it's", '$(exit 9)', '`exit 9`', '"; exit 9; "', '\\', "'\\''", 'a\nb', '-n', '*', 'ü\u0001']
  const line = commandLine('for word in "$@"; do printf "%s\\0" "$word"; done', words)
  expect(execFileSync('sh', ['-c', line], { encoding: 'utf8' }).split('\0').slice(0, -1)).toEqual(words)
})

test.each([
  ['hv-1', { words: ['hv-1'], host: 'hv-1' }],
  ['root@hv-1', { words: ['root@hv-1'], host: 'hv-1' }],
  ['op@hv-1.example:2222', { words: ['-p', '2222', 'op@hv-1.example'], host: 'hv-1.example' }],
  ['root@[fe80::1]:22', { words: ['-p', '22', 'root@fe80::1'], host: 'fe80::1' }],
])('%s names a machine', (text, target) => {
  expect(readTarget(text)).toEqual({ ...target, label: text })
})

test.each(['', 'root@', '-oProxyCommand=x', 'root@-x', 'a b', 'root@hv-1:0', 'root@hv-1:99999', 'x@y@z', "h'x", 'h\n'])(
  '%j names none',
  (text) => {
    expect(() => readTarget(text)).toThrow(CliError)
  },
)
