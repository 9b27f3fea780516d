// Whether this host can take a desktop.
import { check } from '../moves/fitness.ts'
import type { MoveDeps } from '../moves/held.ts'
import type { CommandHandler } from './handler.ts'

export const moveCheck: CommandHandler<'move.check', MoveDeps> = check
