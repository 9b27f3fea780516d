// Runs a command in the guest of an awake desktop.
import { awakeGuest, unlessAborted, whileAwake } from '../guest/awake.ts'
import type { CommandHandler } from './room.ts'

export const exec: CommandHandler<'guest.exec'> = async ({ ground }, command, given) => {
  const guest = awakeGuest(ground, command)
  using awake = whileAwake(ground, command)
  return await unlessAborted(guest.exec(command, given), awake.signal)
}
