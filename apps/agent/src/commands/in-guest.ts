// Runs what a command does in the guest of an awake desktop.
import type { CommandName, CommandPayload, CommandResult } from '@dormouse/contract'
import { type AwakeDeps, awakeGuest, whileAwake } from '../desktops/awake-guest.ts'
import type { GuestTransport } from '../driver/guest-transport.ts'
import { unlessAborted } from '../mechanics/deadlines.ts'
import type { CommandHandler } from './handler.ts'

type GuestCommand = Extract<CommandName, `exec.${string}` | `watch.${string}`>

/** Ends when the desktop is no longer awake, and not with its caller: what goes on in the guest is counted until it ends. */
export const inGuest =
  <N extends GuestCommand, D extends AwakeDeps>(
    work: (deps: D, guest: GuestTransport, request: CommandPayload<N>) => Promise<CommandResult<N>>,
  ): CommandHandler<N, D> =>
  async (deps, request) => {
    const guest = awakeGuest(deps, request)
    using awake = whileAwake(deps, request)
    return await unlessAborted(work(deps, guest, request), awake.signal)
  }
