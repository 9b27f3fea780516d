// The life of a desktop as a table: what may be asked of it, from which states, through which, to which.
import { type DesktopState, desktopStates, messageOf, type OperationKind, type RefusalCode } from '@dormouse/contract'

interface Transition {
  from: readonly DesktopState[]
  via: DesktopState
  done: DesktopState
}

const everyStateBut = (...not: DesktopState[]) => desktopStates.filter((state) => !not.includes(state))

/** The only ways a request moves a desktop. */
export const transitions = {
  wake: { from: ['created', 'hibernated', 'stopped'], via: 'waking', done: 'awake' },
  hibernate: { from: ['awake'], via: 'hibernating', done: 'hibernated' },
  destroy: { from: everyStateBut('destroying', 'destroyed'), via: 'destroying', done: 'destroyed' },
} as const satisfies Record<OperationKind, Transition>

/** Whether a request of this kind is legal in this state. */
export const permits = (kind: OperationKind, state: DesktopState): boolean =>
  (transitions[kind].from as readonly DesktopState[]).includes(state)

/** The states in which a desktop's operation is under way; only its settling, or a destroy, ends them. */
export const passing: readonly DesktopState[] = ['waking', 'hibernating', 'destroying']

/** The sentence for a request that the state forbids. */
export function forbids(kind: OperationKind, state: DesktopState, failure: RefusalCode | null = null): string {
  if (state === 'failed') return isLost(failure)
  const from = transitions[kind].from.join(', ')
  return `the desktop is ${state}; ${kind} is possible when it is ${from.replace(/, ([^,]*)$/, ' or $1')}`
}

/** The sentence for every request but a destroy, once the desktop is `failed`. */
export const isLost = (failure: RefusalCode | null): string =>
  `the desktop is failed: ${failure ? messageOf(failure) : 'its data is lost; destroy the desktop and create another'}`
