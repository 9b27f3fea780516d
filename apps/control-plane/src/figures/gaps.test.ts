// Guarantee: each step of the past has a point or a reason, and the reason is what the ledger says of it.
import { expect, test } from 'vitest'
import { gapsOf } from './gaps.ts'

const day = 86_400
const [here, elsewhere] = ['here', 'elsewhere']

test('each step without a point has its reason, and steps in a row with the same reason are one', () => {
  const awake = [
    { start: 0, end: 20, hostId: here },
    { start: 40, end: 60, hostId: elsewhere },
    { start: 60, end: 100, hostId: here },
  ]
  const points = [70, 80].map((at) => ({ at }))
  const known = { awake, hostId: here, now: 100 }
  expect(gapsOf({ start: 0, end: 200, step: 10 }, points, known)).toEqual([
    { start: 0, end: 20, reason: 'not_measured' },
    { start: 20, end: 40, reason: 'asleep' },
    { start: 40, end: 60, reason: 'other_host' },
    { start: 60, end: 70, reason: 'not_measured' },
    { start: 90, end: 100, reason: 'not_measured' },
  ])
  expect(gapsOf({ start: 0, end: 60, step: 60 }, [], { ...known, now: day + 1 })).toEqual([
    { start: 0, end: 60, reason: 'asleep' },
  ])
  expect(gapsOf({ start: 0, end: 20, step: 10 }, [], { ...known, now: day + 15 })).toEqual([
    { start: 0, end: 20, reason: 'expired' },
  ])
})

test('what has points throughout misses nothing, and a desktop without a host was asleep', () => {
  const span = { start: 0.5, end: 30, step: 10 }
  const points = [0.5, 10.5, 20.5].map((at) => ({ at }))
  expect(gapsOf(span, points, { awake: [], hostId: here, now: 30 })).toEqual([])
  expect(gapsOf(span, [], { awake: [], hostId: null, now: 30 })).toEqual([{ start: 0.5, end: 30, reason: 'asleep' }])
})
