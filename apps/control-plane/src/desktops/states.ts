// The states of a desktop as tables: every change of state that the code makes is in one of them. Pure.
import { type DesktopState, desktopStates, messageOf, type RefusalCode, type RequestKind } from '@dormouse/contract'

interface Transition {
  /** The states in which the request is legal. */
  from: readonly DesktopState[]
  /** The state while the operation is in progress. */
  via: DesktopState
  /** The state after it has succeeded. */
  done: DesktopState
  /** The states after it has failed: whichever is true by then. */
  undone: readonly DesktopState[]
}

const everyStateBut = (...not: DesktopState[]) => desktopStates.filter((state) => !not.includes(state))
const resting = ['created', 'hibernated', 'stopped'] as const

/** What a request changes. */
export const transitions = {
  wake: { from: resting, via: 'waking', done: 'awake', undone: resting },
  hibernate: { from: ['awake'], via: 'hibernating', done: 'hibernated', undone: ['awake', 'hibernated', 'stopped'] },
  destroy: {
    from: everyStateBut('destroying', 'destroyed'),
    via: 'destroying',
    done: 'destroyed',
    undone: [...resting, 'failed'],
  },
} as const satisfies Record<RequestKind, Transition>

/** The states in which a desktop can move to another host. A move changes none of them. */
export const movable: readonly DesktopState[] = ['awake', 'hibernated', 'stopped']

type Changes = Readonly<Partial<Record<DesktopState, readonly DesktopState[]>>>

/**
 * The changes that a host's report makes while no operation is in progress: each new state, and the states from which it may
 * follow.
 */
const corrections: Changes = {
  hibernated: ['created', 'awake', 'stopped'],
  stopped: ['created', 'awake', 'hibernated'],
}

/** The changes that removing a host makes: a `failed` desktop has lost its only disk, a `created` one had none yet. */
export const removalChanges = {
  failed: ['waking', 'awake', 'hibernating', 'hibernated', 'stopped'],
  created: ['created', 'waking'],
} as const satisfies Changes

/** The changes that the return of a lost host makes: the host still has the desktop, with or without its saved memory. */
const returns: Changes = { hibernated: ['failed'], stopped: ['failed'] }

/** The states in which a copy of the desktop can be restored. A restore changes them only when it has succeeded. */
export const restorable: readonly DesktopState[] = ['created', 'hibernated', 'stopped', 'failed']
const restored: readonly DesktopState[] = ['hibernated', 'stopped']

/** What puts a desktop into a lasting state: its operation, a host's report, or the removal or the return of its host. */
export type SettledBy = RequestKind | 'restore' | 'correction' | 'removal' | 'return'

/** The states from which this cause may bring a desktop into state `to`; none if the tables do not allow it. */
export function sourcesOf(cause: SettledBy, to: DesktopState): readonly DesktopState[] {
  if (cause === 'restore') return restored.includes(to) ? restorable : []
  if (cause === 'correction') return corrections[to] ?? []
  if (cause === 'return') return returns[to] ?? []
  if (cause === 'removal') return (removalChanges as Changes)[to] ?? []
  const { via, done, undone }: Transition = transitions[cause]
  return to === done || undone.includes(to) ? [via] : []
}

/** Whether a request of this kind is legal in this state. */
export const isLegal = (kind: RequestKind, state: DesktopState): boolean =>
  (transitions[kind].from as readonly DesktopState[]).includes(state)

/** Whether a desktop in this state can be woken now, or once what is in progress has ended. */
export const isWakeable = (state: DesktopState): boolean =>
  isLegal('wake', state) || state === 'waking' || state === 'hibernating' || state === 'awake'

/** The states in which an operation is in progress. They end when it settles, or when a destroy or a removal supersedes it. */
export const inProgress: readonly DesktopState[] = Object.values(transitions).map(({ via }) => via)

/** The message for a request that is illegal in this state. */
export function illegalRequest(kind: RequestKind, state: DesktopState, failure: RefusalCode | null = null): string {
  if (state === 'failed') return failedMessage(failure)
  const from = transitions[kind].from.join(', ')
  return `the desktop is ${state}; ${kind} is possible when it is ${from.replace(/, ([^,]*)$/, ' or $1')}`
}

/** The message for every request but a destroy while the desktop is `failed`. */
export const failedMessage = (failure: RefusalCode | null): string =>
  `the desktop is failed: ${failure ? messageOf(failure) : 'its data is lost; destroy the desktop and create another'}`
