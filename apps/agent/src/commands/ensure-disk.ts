// The desktop's disk exists: an overlay on its image.
import { type DiskDeps, ensureDisk as decide } from '../desktops/ensure-disk.ts'
import type { CommandHandler, TurnDeps } from './handler.ts'

export const ensureDisk: CommandHandler<'desktop.ensureDisk', DiskDeps & TurnDeps> = (
  deps,
  { fence, spec, disk, image },
) => deps.turns.run(fence, 'desktop.ensureDisk', (turn) => decide(deps, turn, { spec, disk, image }))
