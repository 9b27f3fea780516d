// Watches of folders in the guest of an awake desktop. They are no activity: one that was left open keeps no desktop awake.
import type { CommandName, CommandPayload, CommandResult } from '@dormouse/contract'
import { type AwakeDeps, awakeGuest, whileAwake } from '../desktops/awake-guest.ts'
import type { GuestTransport } from '../driver/guest-transport.ts'
import type { GuestWatches } from '../guest/watches.ts'
import { unlessAborted } from '../mechanics/deadlines.ts'
import type { CommandHandler } from './handler.ts'

interface WatchDeps extends AwakeDeps {
  watches: GuestWatches
}

type WatchName = Extract<CommandName, `watch.${string}`>

type Work<N extends WatchName> = (
  watches: GuestWatches,
  guest: GuestTransport,
  request: CommandPayload<N>,
) => Promise<CommandResult<N>>

/** Ends when the desktop is no longer awake, and not with its caller: what goes on in the guest is counted until it ends. */
const inGuest =
  <N extends WatchName>(work: Work<N>): CommandHandler<N, WatchDeps> =>
  async (deps, request) => {
    const guest = awakeGuest(deps, request)
    using awake = whileAwake(deps, request)
    return await unlessAborted(work(deps.watches, guest, request), awake.signal)
  }

export const watchHandlers: { [N in WatchName]: CommandHandler<N, WatchDeps> } = {
  'watch.start': inGuest((watches, guest, request) => watches.start(guest, request)),
  'watch.read': inGuest((watches, guest, request) => watches.read(guest, request)),
  'watch.remove': inGuest(async (watches, guest, request) => {
    await watches.remove(guest, request)
    return {}
  }),
}
