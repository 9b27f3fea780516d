// Guarantee: a drain tries each desktop a bounded number of times, goes from live to cold only if live fails, and never
// hibernates because a host was unreachable or full.
import { desktopStates } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { actionFor, after, exhausted, type Tried } from './steps.ts'

const fresh: Tried = { tries: 0, failures: 0, cold: false, hibernated: false }
const live = { kind: 'move', from: 'awake' } as const

test('each state has one action, by what was asked for', () => {
  const actions = (sleeping: 'leave' | 'move', awake: 'live' | 'hibernate') =>
    Object.fromEntries(desktopStates.map((state) => [state, actionFor(state, { sleeping, awake }, fresh)]))
  expect(actions('leave', 'live')).toMatchObject({ awake: 'live_move', hibernated: 'leave', stopped: 'leave' })
  expect(actions('leave', 'hibernate')).toMatchObject({ awake: 'hibernate', created: 'leave' })
  expect(actions('move', 'hibernate')).toMatchObject({
    awake: 'hibernate_and_move',
    hibernated: 'move',
    stopped: 'move',
  })
  expect(actions('move', 'live')).toMatchObject({ waking: 'none', hibernating: 'none', destroying: 'none' })
})

test('what does not move live is hibernated for its move, also where sleeping desktops are left', () => {
  let tried = fresh
  for (let i = 0; i < 2; i++) tried = after(tried, { ...live, errorCode: 'hypervisor_failed' })
  expect(tried).toMatchObject({ cold: true, failures: 0 })
  const mode = { sleeping: 'leave', awake: 'live' } as const
  expect(actionFor('awake', mode, tried)).toBe('hibernate_and_move')
  tried = after(tried, { kind: 'hibernate', from: 'awake', errorCode: null })
  expect(actionFor('hibernated', mode, tried)).toBe('move')
})

test.each(['host_unreachable', 'no_room'] as const)(
  '%s blocks it after three tries, and hibernates nothing',
  (errorCode) => {
    let tried = fresh
    for (let i = 0; i < 3; i++) {
      expect(exhausted(tried, null)).toBeUndefined()
      tried = after(tried, { ...live, errorCode })
    }
    expect(tried.cold).toBe(false)
    expect(exhausted(tried, { code: errorCode, detail: 'why' })).toEqual({ code: errorCode, detail: 'why' })
  },
)

test('a request of the owner costs no failure, but tries are bounded', () => {
  const tried = after({ ...fresh, tries: 10 }, { ...live, errorCode: 'superseded' })
  expect(tried.failures).toBe(0)
  expect(exhausted(tried, null)?.code).toBe('superseded')
})
