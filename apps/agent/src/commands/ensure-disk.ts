// The overlay on the image is there.
import { ensureDisk as decide } from '../desktops/ensure-disk.ts'
import type { CommandHandler } from './room.ts'

export const ensureDisk: CommandHandler<'desktop.ensureDisk'> = ({ ground, turns }, { fence, spec, disk }) =>
  turns.obey(fence, 'desktop.ensureDisk', (turn) => decide(ground, turn, { spec, disk }))
