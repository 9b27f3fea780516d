// Lists and changes entries of the file system of an awake desktop's guest.
import { type AwakeDeps, awakeGuest, whileAwake } from '../desktops/awake-guest.ts'
import { unlessAborted } from '../mechanics/deadlines.ts'
import type { CommandHandler } from './handler.ts'

export const listEntries: CommandHandler<'guest.listEntries', AwakeDeps> = async (deps, request, given) => {
  const guest = awakeGuest(deps, request)
  using awake = whileAwake(deps, request, given)
  return await unlessAborted(guest.listEntries(request), awake.signal)
}

/** Goes on if no caller waits any more: a change that was begun is finished. */
export const changeEntry: CommandHandler<'guest.changeEntry', AwakeDeps> = async (deps, request) => {
  const { change, timeoutSecs } = request
  const guest = awakeGuest(deps, request)
  using awake = whileAwake(deps, request)
  return { entry: await unlessAborted(guest.changeEntry(change, timeoutSecs), awake.signal) }
}
