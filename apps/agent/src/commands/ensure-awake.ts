// The desktop runs in this generation, its guest answers, and its clock is right.
import { wake } from '../desktops/wake.ts'
import type { CommandHandler } from './room.ts'

export const ensureAwake: CommandHandler<'desktop.ensureAwake'> = ({ ground, turns }, { fence, spec, source }) =>
  turns.obey(fence, 'desktop.ensureAwake', (turn) => wake(ground, turn, { spec, source }))
