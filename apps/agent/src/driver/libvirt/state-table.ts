// What each state that libvirt reports means for a desktop, as a table. Pure.
import type { DomainStateName, pausedReason } from '@dormouse/node-libvirt'
import type { Domain } from '../driver.ts'

type PausedReason = keyof typeof pausedReason
type Meaning = Pick<Domain, 'state' | 'pause'>

const running: Meaning = { state: 'running', pause: null }
const stopped: Meaning = { state: 'stopped', pause: null }
const paused: Meaning = { state: 'paused', pause: 'paused' }

/** A guest that powers off still has its process, and its memory, until it is shut off. */
const states: Record<Exclude<DomainStateName, 'paused'>, Meaning> = {
  running,
  blocked: running,
  shutdown: running,
  unknown: running,
  pmsuspended: { state: 'paused', pause: 'suspended' },
  nostate: stopped,
  shutoff: stopped,
  crashed: stopped,
}

/**
 * A guest keeps its memory whatever has paused it, even if that was a crash or libvirt's own work that was cut. Its disk is the
 * only cause that passes by itself.
 */
const pauses: Record<PausedReason, Meaning> = {
  ioerror: { state: 'paused', pause: 'space' },
  unknown: paused,
  user: paused,
  migration: paused,
  save: paused,
  dump: paused,
  watchdog: paused,
  fromSnapshot: paused,
  shuttingDown: paused,
  snapshot: paused,
  crashed: paused,
  startingUp: paused,
  postcopy: paused,
  postcopyFailed: paused,
}

/** A reason that a later libvirt has added pauses like any other. */
export function meaningOf({ state, reason }: { state: DomainStateName; reason: string }): Meaning {
  if (state !== 'paused') return states[state]
  return pauses[reason as PausedReason] ?? paused
}
