// Guarantee: destroy is legal from every living state; nothing leaves a state of passage but its operation or a destroy.
import { desktopStates, operationKinds } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { forbids, passing, permits, sourcesOf, transitions } from './states.ts'

test('destroy is legal from every state but the two that already are one', () => {
  const refused = desktopStates.filter((state) => !permits('destroy', state))
  expect(refused).toEqual(['destroying', 'destroyed'])
})

test('while an operation is under way only destroy is legal', () => {
  for (const state of passing) {
    const legal = operationKinds.filter((kind) => permits(kind, state))
    expect(legal).toEqual(state === 'destroying' ? [] : ['destroy'])
  }
})

test('every transition passes through a state of passage and ends in a state of rest', () => {
  for (const { via, done } of Object.values(transitions)) {
    expect(passing).toContain(via)
    expect(passing).not.toContain(done)
  }
})

test('an operation settles from its own state of passage only, and into no other state of passage', () => {
  for (const kind of operationKinds) {
    const settled = desktopStates.filter((to) => sourcesOf(kind, to).length > 0)
    expect(settled.filter((to) => passing.includes(to))).toEqual([])
    for (const to of settled) expect(sourcesOf(kind, to)).toEqual([transitions[kind].via])
  }
})

test('no report and no removal moves a desktop that is being destroyed, is destroyed or has failed', () => {
  for (const to of desktopStates) {
    const sources = [...sourcesOf('correction', to), ...sourcesOf('removal', to)]
    expect(sources.filter((from) => ['destroying', 'destroyed', 'failed'].includes(from))).toEqual([])
  }
})

test('a refusal says from where it would be possible', () => {
  expect(forbids('wake', 'awake')).toBe(
    'the desktop is awake; wake is possible when it is created, hibernated or stopped',
  )
})
