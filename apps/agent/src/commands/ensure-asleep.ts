// The undo of a wake: whatever is there sleeps again.
import { asleep } from '../desktops/asleep.ts'
import type { CommandHandler } from './room.ts'

export const ensureAsleep: CommandHandler<'desktop.ensureAsleep'> = ({ ground, turns }, { fence }) =>
  turns.obey(fence, 'desktop.ensureAsleep', (turn) => asleep(ground, turn), { takesBack: true, makesRoom: true })
