// Guarantee: a socket closes with the code of what has really happened to its desktop or its exec.
import { Refusal, type RefusalCode } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { endingAfter, endingOf } from './endings.ts'

test.each([
  ['awake', 'here', undefined],
  ['awake', 'elsewhere', 4006],
  ['hibernating', 'here', 4002],
  ['waking', 'here', 4002],
  ['stopped', null, 4002],
  ['destroying', 'here', 4003],
  ['failed', null, 4005],
] as const)('a desktop that is %s, on host %s', (state, hostId, code) => {
  expect(endingOf({ state, hostId }, 'here')?.code).toBe(code)
})

test.each([
  ['exec_unknown', 4007],
  ['rate_limited', 1013],
  ['not_found', 4003],
  ['guest_unavailable', undefined],
] as const)('after the refusal %s', (refusal: RefusalCode, code) => {
  expect(endingAfter(new Refusal(refusal))?.code).toBe(code)
})
