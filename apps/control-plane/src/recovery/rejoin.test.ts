// Guarantee: a host that reconnects loses nothing that the database expects, and only a destroyed record removes anything.
import type { DesktopState, Observation } from '@dormouse/contract'
import { desktopStates } from '@dormouse/contract'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { DesktopRow } from '../desktops/store.ts'
import { judge, judgeMissing, massLimit } from './rejoin.ts'

const row = (state: DesktopState, given: Partial<DesktopRow> = {}): DesktopRow =>
  ({ id: 'd', state, hostId: 'h', generation: 3, turn: 5, ...given }) as DesktopRow

const seen = (given: Partial<Observation> = {}): Observation => ({
  desktopId: 'd',
  generation: 3,
  turn: 5,
  operationId: null,
  domain: 'absent',
  memory: 'none',
  disk: true,
  reason: null,
  ...given,
})

test('an awake desktop that runs is kept as it is', () => {
  expect(judge('h', seen({ domain: 'running' }), row('awake'))).toEqual({ order: 'keep' })
})

test('an awake desktop that does not run is stopped, or hibernated where its whole memory was saved', () => {
  expect(judge('h', seen(), row('awake'))).toMatchObject({ order: 'keep', become: 'stopped' })
  expect(judge('h', seen({ memory: 'complete' }), row('awake'))).toMatchObject({ order: 'keep', become: 'hibernated' })
  expect(judge('h', seen({ memory: 'spent' }), row('awake'))).toMatchObject({ become: 'stopped' })
})

test('an awake desktop whose guest stands still is hibernated; one whose disk is full waits; an older agent’s is reported', () => {
  for (const pause of ['suspended', 'paused'] as const) {
    const found = { order: 'keep', hibernate: true }
    expect(judge('h', seen({ domain: 'paused', pause }), row('awake'))).toEqual(found)
    expect(judge('h', seen({ domain: 'running', pause }), row('awake'))).toEqual(found)
    expect(judge('h', seen({ domain: 'paused', pause }), row('hibernated'))).toMatchObject({ order: 'suspend' })
  }
  expect(judge('h', seen({ domain: 'paused', pause: 'space' }), row('awake'))).toEqual({ order: 'keep' })
  expect(judge('h', seen({ domain: 'paused' }), row('awake'))).toEqual({ order: 'keep', alarm: expect.any(String) })
})

test('a hibernated desktop whose memory was used is stopped; one whose memory is missing may get it back', () => {
  expect(judge('h', seen({ memory: 'spent' }), row('hibernated'))).toMatchObject({ order: 'keep', become: 'stopped' })
  for (const memory of ['none', 'partial', 'damaged', 'complete'] as const)
    expect(judge('h', seen({ memory }), row('hibernated'))).toEqual({ order: 'keep' })
})

test('a desktop that runs against the database’s state is suspended and reported, never destroyed', () => {
  for (const state of ['hibernated', 'stopped', 'created'] as const) {
    expect(judge('h', seen({ domain: 'running' }), row(state))).toMatchObject({
      order: 'suspend',
      alarm: expect.any(String),
    })
  }
  expect(judge('h', seen({ domain: 'running' }), undefined)).toMatchObject({ order: 'suspend' })
})

test('only the record of a destroyed desktop removes it', () => {
  const domain = fc.constantFrom('absent', 'running', 'paused', 'stopped') as fc.Arbitrary<Observation['domain']>
  const memory = fc.constantFrom('none', 'partial', 'complete', 'spent', 'damaged') as fc.Arbitrary<
    Observation['memory']
  >
  fc.assert(
    fc.property(domain, memory, fc.constantFrom(...desktopStates), fc.boolean(), (d, m, state, elsewhere) => {
      const { order } = judge('h', seen({ domain: d, memory: m }), row(state, { hostId: elsewhere ? 'other' : 'h' }))
      expect(order === 'remove').toBe(state === 'destroyed')
    }),
  )
})

test('a host that has seen later turns than the database is left alone: the database may be an older backup', () => {
  expect(judge('h', seen({ turn: 6, domain: 'running' }), row('destroyed'))).toMatchObject({
    order: 'keep',
    alarm: expect.any(String),
  })
})

test('a domain of another host’s desktop is stopped if that was woken since; else it may be the one whole copy', () => {
  const runs = seen({ domain: 'running' })
  expect(judge('h', runs, row('awake', { hostId: 'other', generation: 4 }))).toEqual({ order: 'stop' })
  const moved = judge('h', runs, row('stopped', { hostId: 'other', turn: 1_005 }))
  expect(moved).toMatchObject({ order: 'suspend', alarm: expect.stringContaining('another host') })
})

test('absence makes an awake desktop stopped, and touches nothing else', () => {
  for (const state of desktopStates) expect(judgeMissing(row(state))).toBe(state === 'awake' ? 'stopped' : undefined)
})

test('one comparison stops or removes at most five items or a twentieth', () => {
  expect(massLimit(10)).toBe(5)
  expect(massLimit(1_000)).toBe(50)
})
