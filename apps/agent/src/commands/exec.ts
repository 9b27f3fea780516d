// Runs a command in the guest of an awake desktop.
import { Refusal } from '@dormouse/contract'
import { type AwakeDeps, awakeGuest, whileAwake } from '../desktops/awake-guest.ts'
import { CommandLost } from '../driver/guest-transport.ts'
import { unlessAborted } from '../mechanics/deadlines.ts'
import type { CommandHandler } from './handler.ts'

/** Where the guest is lost once the command may have begun, that is no `guest_unavailable`: those may be sent again. */
export const exec: CommandHandler<'guest.exec', AwakeDeps> = async (deps, command) => {
  const guest = awakeGuest(deps, command)
  using awake = whileAwake(deps, command)
  try {
    return await unlessAborted(guest.exec(command), awake.signal)
  } catch (error) {
    throw awake.signal.aborted || error instanceof CommandLost ? new Refusal('exec_interrupted') : error
  }
}
