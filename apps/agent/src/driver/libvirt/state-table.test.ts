// Guarantee: whatever libvirt reports of a domain, its desktop counts as stopped only if no process holds its memory any more.
import { domainState, pausedReason, runningReason, shutoffReason } from '@dormouse/node-libvirt'
import { expect, test } from 'vitest'
import { meaningOf } from './state-table.ts'

const reasonsOf = { running: runningReason, paused: pausedReason, shutoff: shutoffReason } as Partial<
  Record<keyof typeof domainState, object>
>
const rows = Object.keys(domainState).flatMap((state) =>
  ['unknown', 'added later', ...Object.keys(reasonsOf[state as keyof typeof domainState] ?? {})].map((reason) => ({
    state: state as keyof typeof domainState,
    reason,
  })),
)
const expected = {
  nostate: 'stopped',
  running: 'running',
  blocked: 'running',
  paused: 'paused',
  shutdown: 'running',
  shutoff: 'stopped',
  crashed: 'stopped',
  pmsuspended: 'paused',
} as const satisfies Record<keyof typeof domainState, string>

test.each(rows)('$state, $reason', ({ state, reason }) => {
  const pause = state === 'pmsuspended' ? 'suspended' : reason === 'ioerror' ? 'space' : 'paused'
  expect(meaningOf({ state, reason })).toEqual({
    state: expected[state],
    pause: expected[state] === 'paused' ? pause : null,
  })
})

test('a state that a later libvirt has added counts as running', () => {
  expect(meaningOf({ state: 'unknown', reason: 'unknown' })).toEqual({ state: 'running', pause: null })
})
