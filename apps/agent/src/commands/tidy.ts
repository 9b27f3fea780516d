// The wake has settled: the spent image may go.
import { removeSpent } from '../desktops/situation.ts'
import type { CommandHandler } from './room.ts'

export const tidy: CommandHandler<'desktop.tidy'> = ({ ground, turns }, { fence }) =>
  turns.obey(
    fence,
    'desktop.tidy',
    async () => {
      await removeSpent(ground, fence.desktopId)
      return {}
    },
    { makesRoom: true },
  )
