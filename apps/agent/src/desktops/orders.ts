// Carries out what the leader decides about this host's desktops when the host rejoins.
import type { DesktopId, RejoinOrder } from '@dormouse/contract'
import type { Log } from '@dormouse/process'
import { type RemoveDeps, removeAll } from './destroy.ts'
import type { HeldMoves } from './held-moves.ts'
import { nothingHere } from './journal-entry.ts'
import { type LookDeps, removeSpent } from './situation.ts'
import type { Turns } from './turns.ts'

export interface OrderDeps extends LookDeps, RemoveDeps {
  moves: Pick<HeldMoves, 'end'>
  driver: LookDeps['driver']
  memory: LookDeps['memory']
  turns: Turns
  log: Log
}

/** Carries out an order while the journal still is at what the leader saw and no work is in progress; else does nothing. */
export async function carryOut(deps: OrderDeps, { desktopId, seen, order }: RejoinOrder): Promise<void> {
  // A move has commands of its own, and its job would be waited for.
  if (deps.journal.read(desktopId)?.move && order !== 'remove') return
  await deps.turns.whileIdle(desktopId, seen, async () => {
    deps.log.info({ desktopId, order, ...seen }, 'an order of the leader is carried out')
    await apply(deps, desktopId, order)
  })
}

async function apply(deps: OrderDeps, desktopId: DesktopId, order: RejoinOrder['order']): Promise<void> {
  switch (order) {
    case 'keep':
      return removeSpent(deps, desktopId)
    case 'stop':
      return deps.driver.kill(desktopId)
    case 'suspend':
      return suspend(deps, desktopId)
    case 'remove':
      return remove(deps, desktopId)
  }
}

/** Nothing resumes it afterwards, not even space on the host's disk. */
async function suspend({ driver, journal }: OrderDeps, desktopId: DesktopId): Promise<void> {
  await driver.suspend(desktopId)
  const entry = journal.read(desktopId)
  if (entry) await journal.note(entry, { running: false }, { freesSpace: true })
}

async function remove(deps: OrderDeps, desktopId: DesktopId): Promise<void> {
  deps.moves.end(desktopId)
  await deps.driver.abortJob(desktopId)
  await removeAll(deps, desktopId)
  const entry = deps.journal.read(desktopId)
  const tombstone = { ...nothingHere, destroyedAt: new Date().toISOString() }
  if (entry) await deps.journal.note(entry, tombstone, { freesSpace: true })
}
