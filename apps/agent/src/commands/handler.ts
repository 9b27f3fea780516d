// What a command's handler gets and returns.
import type { CommandName, CommandPayload, CommandResult } from '@dormouse/contract'
import type { Channel } from '@dormouse/link'
import type { Turns } from '../desktops/turns.ts'

/** Opens the channel that the requesting replica expects under this token. */
export type DialBack = (token: string, signal?: AbortSignal) => Promise<Channel>

/**
 * `deps` is what this one command needs. `signal` aborts when no caller waits for the result any more; an `ensure…` command
 * goes on anyway. `dialBack` opens a channel to the requesting replica, for what is too large for a result.
 */
export type CommandHandler<N extends CommandName, Deps> = (
  deps: Deps,
  payload: CommandPayload<N>,
  signal: AbortSignal,
  dialBack: DialBack,
) => Promise<CommandResult<N>>

/** A command as it arrived. */
export interface CommandCall {
  /** A call to a guest has its own. */
  name: string
  /** The operation that it belongs to, if it takes a desktop's turn. */
  operationId: string | undefined
  desktopId: string | undefined
  /** The request that caused it. */
  requestId: string | undefined
  /** Names the control plane's span; not validated. Undefined if nothing is traced. */
  traceparent: string | undefined
}

/** Wraps every command. Passed in by the wiring: metrics and traces are no matter of a command. */
export type CommandObserver = <T>(call: CommandCall, work: () => Promise<T>) => Promise<T>

/** For a command that takes its desktop's turn. */
export interface TurnDeps {
  turns: Turns
}
