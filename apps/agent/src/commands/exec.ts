// Runs a command in the guest of an awake desktop.
import { awakeGuest } from '../guest/awake.ts'
import type { CommandHandler } from './room.ts'

export const exec: CommandHandler<'guest.exec'> = async ({ ground }, command, signal) =>
  awakeGuest(ground, command).exec(command, signal)
