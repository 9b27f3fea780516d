// Guarantee: the page reconnects if it may, and never fights for a claim that another client took.
import { screenCloses } from '@dormouse/contract/screens'
import { expect, test } from 'vitest'
import { type PageState, stateAfter, textOf } from './states.ts'

const occasion = { desktopId: 'abc', claim: 'view', why: undefined } as const
const closed = (code: number, more: object = {}) =>
  stateAfter({ code, cause: undefined, darkForMs: 0, attempts: 0, hasTicket: true, ...more })

test.each([
  [screenCloses.takenOver, 'taken-over'],
  [screenCloses.destroyed, 'destroyed'],
  [screenCloses.revoked, 'ended'],
])('%i is final: %s', (code, state) => {
  expect(closed(code)).toEqual({ state })
})

test('a page whose desktop sleeps keeps trying, however long it takes', () => {
  expect(closed(screenCloses.asleep, { darkForMs: 3_000_000, attempts: 900 })).toMatchObject({
    state: 'asleep',
    reconnectInMs: 2_000,
  })
})

test('one whose desktop is waking tries often, and asks nobody to wake it', () => {
  expect(closed(screenCloses.asleep, { cause: 'waking' })).toEqual({ state: 'waking', reconnectInMs: 500 })
  expect(textOf('waking', occasion)).toMatchObject({ todo: '', command: '' })
})

test('one whose desktop has moved is back at once', () => {
  expect(closed(screenCloses.moved)).toEqual({ state: 'moved', reconnectInMs: 100 })
  expect(textOf('moved', occasion)).toMatchObject({ todo: '', command: '' })
})

test.each([1001, 1006, 1011, screenCloses.hostLost])('%i is retried, less and less often, for minutes', (code) => {
  const waits = [0, 1, 2, 3, 9].map((attempts) => closed(code, { attempts }).reconnectInMs)
  expect(waits).toEqual([250, 500, 1_000, 2_000, 4_000])
  expect(closed(code, { darkForMs: 301_000 })).toEqual({ state: 'lost' })
})

test('without a ticket the page cannot reconnect', () => {
  expect(closed(1006, { hasTicket: false })).toEqual({ state: 'ended' })
})

const states: PageState[] = [
  ...(['connecting', 'live', 'reconnecting', 'moved', 'taken-over', 'asleep', 'waking'] as const),
  ...(['destroyed', 'ended', 'lost'] as const),
]

test.each(states)('%s is shown in the bar, and over the screen where there is no picture', (state) => {
  const { short, title } = textOf(state, occasion)
  expect(short).not.toBe('')
  expect(title === '').toBe(state === 'live')
})

test('the next step is a command for this desktop and this claim', () => {
  expect(textOf('asleep', occasion).command).toBe('dormouse wake abc')
  expect(textOf('taken-over', occasion).command).toBe('dormouse open abc --takeover --view')
  expect(textOf('ended', { ...occasion, claim: 'control' }).command).toBe('dormouse open abc')
})

test('an ended link shows the service’s own reason where it gave one', () => {
  const why = 'the claim was released meanwhile'
  expect(textOf('ended', { ...occasion, why }).text).toBe('The claim was released meanwhile.')
  expect(textOf('ended', occasion).text).toContain('revoked')
})
