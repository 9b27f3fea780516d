// Guarantee: a misspelt name brings the names that are like it, and a name like none brings none.
import { expect, test } from 'vitest'
import { didYouMean, nearest } from './nearest.ts'

const fields = ['tier', 'image', 'image_version', 'idle_timeout_secs', 'billing_mode', 'name', 'labels', 'ssh']

test.each([
  ['teir', ['tier']],
  ['names', ['name']],
  ['imageVersion', ['image_version', 'image']],
  ['IMAGE-VERSION', ['image_version', 'image']],
  ['image_versoin', ['image_version', 'image']],
  ['idle_timeout', ['idle_timeout_secs']],
  ['label', ['labels']],
  ['billing', ['billing_mode']],
  ['tier', ['tier']],
  ['colour', []],
  ['', []],
  ['x', []],
  ['x'.repeat(1_000_000), []],
  ['__proto__', []],
])('%s is like %j', (given, like) => {
  expect(nearest(given, fields)).toEqual(like)
})

test.each([
  ['cmd', 'command'],
  ['env_vars', 'env'],
  ['dir', undefined],
  ['timeout', 'timeout_secs'],
])('of a command, %s is %s', (given, like) => {
  expect(nearest(given, ['command', 'cwd', 'env', 'stdin', 'timeout_secs'])[0]).toBe(like)
})

test('the best comes first, at most three, each once', () => {
  expect(nearest('port', ['ports', 'pot', 'port', 'sport', 'port'])).toEqual(['port', 'ports', 'pot'])
})

test('a swap of two neighbours is one mistake', () => {
  expect(nearest('ab', ['ba'])).toEqual(['ba'])
  expect(nearest('ab', ['cd'])).toEqual([])
})

test('a message quotes them', () => {
  expect(didYouMean('teir', fields)).toBe('; did you mean "tier"?')
  expect(didYouMean('imag', fields)).toBe('; did you mean "image" or "image_version"?')
  expect(didYouMean('colour', fields)).toBe('')
})
