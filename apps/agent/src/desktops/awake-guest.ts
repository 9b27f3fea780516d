// The guest of a desktop that is awake on this host in the generation that the caller names.
import { type DesktopId, Refusal, refuse } from '@dormouse/contract'
import type { Driver } from '../driver/driver.ts'
import type { Guests, GuestTransport } from '../driver/guest-transport.ts'
import type { Journal } from './journal.ts'

export interface AwakeDeps {
  journal: Journal
  driver: Pick<Driver, 'frozen'>
  guests: Guests
}

interface Target {
  desktopId: DesktopId
  generation: number
}

const checkEveryMs = 250
/** A desktop that is paused at this many checks in a row is not only paused for a move or a save. */
const pausedChecks = 3
const notAwake = 'the desktop is no longer awake on its host; check its state'
const paused = 'the desktop is paused on its host; check its state, then retry'

/**
 * Refuses unless this generation runs on this host: with `not_awake`, or with a refusal that is retried if it is arriving from
 * another host.
 */
export function requireAwake(journal: Journal, target: Target): void {
  const entry = journal.read(target.desktopId)
  if (entry?.move && !entry.running) refuse('guest_unavailable', 'the desktop is moving between hosts; retry')
  if (!isAwake(journal, target)) refuse('not_awake', 'the desktop is not awake on its host in this generation')
}

export function awakeGuest({ journal, guests }: AwakeDeps, target: Target): GuestTransport {
  requireAwake(journal, target)
  return guests.guest(target.desktopId)
}

/**
 * A signal that aborts with `given`, and when the desktop is no longer awake or stays paused: a call to its guest would
 * not notice either.
 */
export function whileAwake(deps: AwakeDeps, target: Target, given?: AbortSignal): { signal: AbortSignal } & Disposable {
  const ended = new AbortController()
  let pausedInARow = 0
  const timer = setInterval(() => {
    pausedInARow = deps.driver.frozen(target.desktopId) ? pausedInARow + 1 : 0
    if (!isAwake(deps.journal, target)) ended.abort(new Refusal('guest_unavailable', notAwake))
    else if (pausedInARow >= pausedChecks) ended.abort(new Refusal('guest_unavailable', paused))
  }, checkEveryMs)
  const signal = given ? AbortSignal.any([given, ended.signal]) : ended.signal
  return { signal, [Symbol.dispose]: () => clearInterval(timer) }
}

function isAwake(journal: Journal, { desktopId, generation }: Target): boolean {
  const entry = journal.read(desktopId)
  // A guest that runs without an identity of its own belongs to no desktop.
  return Boolean(entry?.running) && entry?.generation === generation && entry.identity === 'own'
}
