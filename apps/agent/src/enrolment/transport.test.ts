import { expect, test } from 'vitest'
import { isExposed } from './transport.ts'

test.each([
  ['https://dormouse.example', false],
  ['http://127.0.0.1:8080', false],
  ['http://127.9.9.9', false],
  ['http://localhost:8080/', false],
  ['http://[::1]:8080', false],
  ['http://2130706433', false],
  ['http://dormouse.example', true],
  ['http://localhost.example', true],
  ['http://10.0.0.1', true],
  ['http://0.0.0.0', true],
  ['http://[::]', true],
  ['http://[fd00::1]', true],
])('%s is exposed: %s', (url, exposed) => {
  expect(isExposed(url)).toBe(exposed)
})
