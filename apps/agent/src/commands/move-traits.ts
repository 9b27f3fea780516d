// What another host must have to take a desktop.
import { traits } from '../moves/fitness.ts'
import type { MoveDeps } from '../moves/held.ts'
import type { CommandHandler } from './handler.ts'

export const moveTraits: CommandHandler<'move.traits', MoveDeps> = (deps, { desktopId }) => traits(deps, desktopId)
