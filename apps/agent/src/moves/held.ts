// What the agent's modules of moves share: the parts that they need, and the moves that are open in this process.
import type { Duplex } from 'node:stream'
import { refuse } from '@dormouse/contract'
import type { BytePace, Failpoints, Log } from '@dormouse/process'
import type { RemoveDeps } from '../desktops/destroy.ts'
import type { Digests } from '../desktops/digests.ts'
import type { HeldMove, HeldMoves } from '../desktops/held-moves.ts'
import type { SendReport } from '../desktops/report.ts'
import type { LookDeps } from '../desktops/situation.ts'
import type { Templates } from '../desktops/templates.ts'
import type { Turn } from '../desktops/turns.ts'
import type { Entering, Leaving } from '../driver/moves.ts'
import type { Inputs } from '../input/inputs.ts'
import type { MoveListener } from '../transfer/listener.ts'
import type { MoveTransfer, TransferTimes } from '../transfer/transfer.ts'
import type { Arriving, FilesHandoff } from './handoff.ts'

/** A desktop of this host that is about to leave. */
export interface HeldOut extends HeldMove {
  direction: 'out'
  handoff: string
  /** Set if the desktop runs. */
  leaving: Leaving | undefined
  /** Set if it sleeps. */
  files: FilesHandoff | undefined
  /** The saved memory that moves along. */
  memoryPath: string | undefined
  transfer: MoveTransfer | undefined
  /** The handoff of `send`, once all is sent. */
  sent: string | undefined
}

/** A desktop that is about to arrive. */
export interface HeldIn extends HeldMove {
  direction: 'in'
  entering: Entering | undefined
  arriving: Arriving
  transfer: MoveTransfer
  /** Where this host listens for it, null for nowhere. */
  address: { host: string; port: number } | null
  /** The digests of the copied files, once they are stored. */
  received: Promise<Record<string, string>> | undefined
  /** The handoff of `arrive`, once all is here. */
  arrived: string | undefined
}

export type Held = HeldOut | HeldIn

/** Opens the connections of a relay through the control plane; none if the move needs none. */
export type OpenRelay = () => Promise<Duplex[]>

export interface MoveDeps extends LookDeps, RemoveDeps {
  driver: LookDeps['driver'] & RemoveDeps['driver']
  memory: LookDeps['memory']
  installationId: string
  digests: Digests
  templates: Pick<Templates, 'giveWay'>
  moves: HeldMoves<Held>
  inputs: Pick<Inputs, 'hold'>
  listener: MoveListener
  /** Limits what this host sends. */
  pace: BytePace
  /** The timeouts of transfers that this host dials; undefined for the usual ones. */
  transferTimes?: TransferTimes | undefined
  report: SendReport
  failpoints: Failpoints
  log: Log
}

/** This turn's move out of this host, as far as this process holds it. */
export function heldOut({ moves }: MoveDeps, { fence }: Turn): HeldOut | undefined {
  const held = moves.of(fence.desktopId)
  return held?.direction === 'out' && held.moveId === fence.operationId ? held : undefined
}

export function heldIn({ moves }: MoveDeps, { fence }: Turn): HeldIn | undefined {
  const held = moves.of(fence.desktopId)
  return held?.direction === 'in' && held.moveId === fence.operationId ? held : undefined
}

export const refuseInterrupted = (): never =>
  refuse('hypervisor_failed', 'the move was interrupted; nothing was lost, and it can be undone')

/** This turn's move as the journal has it; refuses another one. */
export function journalled(turn: Turn, direction: 'out' | 'in') {
  const { move } = turn.entry()
  if (move && (move.direction !== direction || move.moveId !== turn.fence.operationId)) {
    refuse('hypervisor_failed', 'another move of the desktop has not ended on this host')
  }
  return move
}
