// Runs what a command does in the guest of an awake desktop.
import { type CommandName, type CommandPayload, type CommandResult, Refusal } from '@dormouse/contract'
import { type AwakeDeps, awakeGuest, whileAwake } from '../desktops/awake-guest.ts'
import { CommandLost, type GuestTransport } from '../driver/guest-transport.ts'
import { unlessAborted } from '../mechanics/deadlines.ts'
import type { CommandHandler } from './handler.ts'

type GuestCommand = Extract<CommandName, 'guest.exec' | `exec.${string}` | `watch.${string}`>

type Work<N extends GuestCommand, D> = (
  deps: D,
  guest: GuestTransport,
  request: CommandPayload<N>,
) => Promise<CommandResult<N>>

/** Ends when the desktop is no longer awake, and not with its caller: what goes on in the guest is counted until it ends. */
export const inGuest =
  <N extends GuestCommand, D extends AwakeDeps = AwakeDeps>(work: Work<N, D>): CommandHandler<N, D> =>
  async (deps, request) => {
    const guest = awakeGuest(deps, request)
    using awake = whileAwake(deps, request)
    return await unlessAborted(work(deps, guest, request), awake.signal)
  }

/** The same for what starts a command. If the guest is lost once it may have begun, that is no `guest_unavailable`: those are repeated. */
export const startingInGuest =
  <N extends GuestCommand, D extends AwakeDeps = AwakeDeps>(work: Work<N, D>): CommandHandler<N, D> =>
  async (deps, request) => {
    const guest = awakeGuest(deps, request)
    using awake = whileAwake(deps, request)
    try {
      return await unlessAborted(work(deps, guest, request), awake.signal)
    } catch (error) {
      throw awake.signal.aborted || error instanceof CommandLost ? new Refusal('exec_interrupted') : error
    }
  }
