// Runs a command in the guest of an awake desktop.
import { startingInGuest } from './in-guest.ts'

export const exec = startingInGuest<'guest.exec'>((_deps, guest, command) => guest.exec(command))
