// Nothing of the desktop is left on the host.
import { destroy } from '../desktops/destroy.ts'
import type { CommandHandler } from './room.ts'

export const ensureDestroyed: CommandHandler<'desktop.ensureDestroyed'> = ({ ground, turns }, { fence }) =>
  turns.obey(fence, 'desktop.ensureDestroyed', (turn) => destroy(ground, turn), { preempts: true, makesRoom: true })
