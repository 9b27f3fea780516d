import { expect, test } from 'vitest'
import { chosen } from './judge.ts'

test.each([
  ['wake', 'awake', 'nothing to do'],
  ['wake', 'hibernating', undefined],
  ['wake', 'destroyed', 'destroyed'],
  ['wake', 'failed', 'failed'],
  ['hibernate', 'waking', undefined],
  ['hibernate', 'failed', 'failed'],
  ['destroy', 'failed', undefined],
  ['label', 'destroying', undefined],
  ['label', 'destroyed', 'destroyed'],
] as const)('%s of a desktop that is %s: %s', (action, state, why) => {
  const { status, detail } = chosen(action, 'id', { state, failureCode: null })
  expect(status).toBe(why === undefined ? 'waiting' : 'skipped')
  expect(detail ?? '').toContain(why ?? '')
})
