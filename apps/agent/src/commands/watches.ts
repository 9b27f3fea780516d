// Watches of folders in the guest of an awake desktop. They are no activity: one that was left open keeps no desktop awake.
import type { CommandName } from '@dormouse/contract'
import type { AwakeDeps } from '../desktops/awake-guest.ts'
import type { GuestWatches } from '../guest/watches.ts'
import type { CommandHandler } from './handler.ts'
import { inGuest } from './in-guest.ts'

interface WatchDeps extends AwakeDeps {
  watches: GuestWatches
}

type WatchName = Extract<CommandName, `watch.${string}`>

export const watchHandlers: { [N in WatchName]: CommandHandler<N, WatchDeps> } = {
  'watch.start': inGuest(({ watches }, guest, request) => watches.start(guest, request)),
  'watch.read': inGuest(({ watches }, guest, request) => watches.read(guest, request)),
  'watch.remove': inGuest(async ({ watches }, guest, request) => {
    await watches.remove(guest, request)
    return {}
  }),
}
