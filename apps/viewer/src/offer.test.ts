// Guarantee: what is pasted before the guest listens reaches it once it does, and nothing is offered for ever.
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { Offer } from './offer.ts'

beforeEach(() => {
  vi.useFakeTimers()
})
afterEach(() => {
  vi.useRealTimers()
})

function offering() {
  const said: string[] = []
  const offer = new Offer((text) => said.push(text))
  offer.enable(true)
  return { said, offer }
}

test('a text is offered again until it is asked for', () => {
  const { said, offer } = offering()
  offer.make('one')
  vi.advanceTimersByTime(4_000)
  expect(said).toEqual(['one', 'one', 'one'])
  offer.settle()
  vi.advanceTimersByTime(60_000)
  expect(said).toHaveLength(3)
})

test('the last text alone is, and not beyond half a minute after the desktop came', () => {
  const { said, offer } = offering()
  offer.make('one')
  offer.make('two')
  vi.advanceTimersByTime(120_000)
  expect(said.slice(1).every((text) => text === 'two')).toBe(true)
  expect(said.length).toBeLessThan(20)
  offer.make('three')
  vi.advanceTimersByTime(120_000)
  expect(said.filter((text) => text === 'three')).toHaveLength(1)
})

test('a desktop that went away is offered nothing when it is back', () => {
  const { said, offer } = offering()
  offer.make('one')
  offer.enable(false)
  offer.enable(true)
  vi.advanceTimersByTime(60_000)
  expect(said).toEqual(['one'])
})
