// Runs a command in the guest of an awake desktop.
import { type AwakeDeps, awakeGuest, whileAwake } from '../desktops/awake-guest.ts'
import { unlessAborted } from '../mechanics/deadlines.ts'
import type { CommandHandler } from './handler.ts'

export const exec: CommandHandler<'guest.exec', AwakeDeps> = async (deps, command) => {
  const guest = awakeGuest(deps, command)
  using awake = whileAwake(deps, command)
  return await unlessAborted(guest.exec(command), awake.signal)
}
