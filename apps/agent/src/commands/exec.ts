// Runs a command in the guest of an awake desktop.
import { awakeGuest, whileAwake } from '../desktops/awake-guest.ts'
import { unlessAborted } from '../mechanics/deadlines.ts'
import type { CommandHandler } from './room.ts'

export const exec: CommandHandler<'guest.exec'> = async ({ ground }, command) => {
  const guest = awakeGuest(ground, command)
  using awake = whileAwake(ground, command)
  return await unlessAborted(guest.exec(command), awake.signal)
}
