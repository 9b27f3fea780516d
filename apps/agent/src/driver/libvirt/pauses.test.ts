// Guarantee: a desktop that was resumed is not taken for a paused one by an answer that was on its way meanwhile.
import { newId } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { Pauses } from './pauses.ts'

const [id, other] = [newId(), newId()]

test('an answer that an event of the same desktop has overtaken counts for nothing', () => {
  const pauses = new Pauses()
  pauses.heard(id, true)
  const answer = pauses.ask(id)
  pauses.heard(id, false)
  answer(true)
  expect(pauses.has(id)).toBe(false)
})

test('an answer counts where only another desktop had an event meanwhile', () => {
  const pauses = new Pauses()
  const answer = pauses.ask(id)
  pauses.heard(other, false)
  answer(true)
  expect(pauses.has(id)).toBe(true)
  pauses.ask(id)(false)
  expect(pauses.has(id)).toBe(false)
})

test('after missed events, and for a desktop that is gone, nothing is said to be paused', () => {
  const pauses = new Pauses()
  for (const each of [id, other]) pauses.heard(each, true)
  pauses.forget(id)
  expect([pauses.has(id), pauses.has(other)]).toEqual([false, true])
  pauses.clear()
  expect(pauses.has(other)).toBe(false)
})
