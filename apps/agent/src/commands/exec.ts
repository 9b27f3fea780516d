// Runs a command in the guest of an awake desktop.
import { refuse } from '@dormouse/contract'
import type { CommandHandler } from './room.ts'

export const exec: CommandHandler<'guest.exec'> = async ({ ground }, command, signal) => {
  const entry = ground.journal.read(command.desktopId)
  if (!entry?.running || entry.generation !== command.generation) {
    refuse('not_awake', 'the desktop is not awake on its host in this generation')
  }
  return ground.driver.guest(command.desktopId).exec(command, signal)
}
