// The classes of activity, and which of them count for a desktop.
import { z } from 'zod'

/**
 * `command` and `transfer`: run or begun through the API. `screen`: keys, pointer and clipboard of the client that controls the
 * screen. `input`: the same through the API. `cpu` and `network`: the guest's use above its host's thresholds.
 */
export const activityClasses = ['command', 'transfer', 'screen', 'input', 'cpu', 'network'] as const
export const activityClass = z.enum(activityClasses)
export type ActivityClass = z.infer<typeof activityClass>

/** A guest's own programs use processor and network without anyone using the desktop. */
export const defaultIdlePolicy: readonly ActivityClass[] = ['command', 'transfer', 'screen', 'input']

export const idlePolicy = z
  .array(activityClass)
  .max(activityClasses.length)
  .transform((given) => activityClasses.filter((one) => given.includes(one)))
