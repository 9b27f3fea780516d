// Runs a command in the guest of an awake desktop.
import { awakeGuest, whileAwake } from '../desktops/awake-guest.ts'
import { unlessAborted } from '../mechanics/waiting.ts'
import type { CommandHandler } from './room.ts'

export const exec: CommandHandler<'guest.exec'> = async ({ ground }, command, given) => {
  const guest = awakeGuest(ground, command)
  using awake = whileAwake(ground, command)
  return await unlessAborted(guest.exec(command, given), awake.signal)
}
