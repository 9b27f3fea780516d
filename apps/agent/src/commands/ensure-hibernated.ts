// Memory and disk are saved, as they belong together, and nothing runs.
import { hibernate } from '../desktops/hibernate.ts'
import type { CommandHandler } from './room.ts'

export const ensureHibernated: CommandHandler<'desktop.ensureHibernated'> = ({ ground, turns }, { fence }) =>
  turns.obey(fence, 'desktop.ensureHibernated', (turn) => hibernate(ground, turn))
