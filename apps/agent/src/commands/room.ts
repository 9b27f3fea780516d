// What the commands are given.
import type { CommandName, CommandPayload, CommandResult } from '@dormouse/contract'
import type { DialBack } from '../control.ts'
import type { Ground } from '../desktops/ground.ts'
import type { Turns } from '../desktops/turns.ts'
import type { Transfers } from '../guest/transfers.ts'
import type { CallsAtOnce } from './calls-at-once.ts'

export interface Room {
  ground: Ground
  turns: Turns
  calls: CallsAtOnce
  transfers: Transfers
}

/**
 * `signal` aborts when nobody waits for the answer any more; an `ensure…` goes on all the same. `dialBack` opens a
 * channel to the replica that asks, for what is too much for an answer.
 */
export type CommandHandler<N extends CommandName> = (
  room: Room,
  payload: CommandPayload<N>,
  signal: AbortSignal,
  dialBack: DialBack,
) => Promise<CommandResult<N>>
