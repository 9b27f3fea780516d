// Guarantee: destroy is legal in every state but its own two; a state in progress ends only by its operation or a destroy.
import { desktopStates, requestKinds } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { illegalRequest, inProgress, isLegal, sourcesOf, transitions } from './states.ts'

test('destroy is legal in every state but `destroying` and `destroyed`', () => {
  const refused = desktopStates.filter((state) => !isLegal('destroy', state))
  expect(refused).toEqual(['destroying', 'destroyed'])
})

test('while an operation is in progress only destroy is legal', () => {
  for (const state of inProgress) {
    const legal = requestKinds.filter((kind) => isLegal(kind, state))
    expect(legal).toEqual(state === 'destroying' ? [] : ['destroy'])
  }
})

test('every transition goes through a state in progress and ends in a lasting one', () => {
  for (const { via, done } of Object.values(transitions)) {
    expect(inProgress).toContain(via)
    expect(inProgress).not.toContain(done)
  }
})

test('an operation settles only from its own state in progress, and into a lasting state', () => {
  for (const kind of requestKinds) {
    const settled = desktopStates.filter((to) => sourcesOf(kind, to).length > 0)
    expect(settled.filter((to) => inProgress.includes(to))).toEqual([])
    for (const to of settled) expect(sourcesOf(kind, to)).toEqual([transitions[kind].via])
  }
})

test('no report and no removal moves a desktop that is being destroyed, is destroyed or has failed', () => {
  for (const to of desktopStates) {
    const sources = [...sourcesOf('correction', to), ...sourcesOf('removal', to)]
    expect(sources.filter((from) => ['destroying', 'destroyed', 'failed'].includes(from))).toEqual([])
  }
})

test('a refusal names the states in which the request is legal', () => {
  expect(illegalRequest('wake', 'awake')).toBe(
    'the desktop is awake; wake is possible when it is created, hibernated or stopped',
  )
})
