// The classes of calls that need a guest, and which of them wake a desktop.
import { z } from 'zod'

/**
 * The classes of calls that need a guest. `exec`: commands and terminals. `files`: files, folders, archives, uploads and watches.
 * `input`: input and the clipboard. `screen`: claims of the screen, its state and screenshots. `ports`: the guest's ports.
 */
export const useClasses = ['exec', 'files', 'input', 'screen', 'ports'] as const
export const useClass = z.enum(useClasses)
export type UseClass = z.infer<typeof useClass>

/** A set, in any order. */
export const wakeOn = z
  .array(useClass)
  .max(useClasses.length)
  .transform((given) => useClasses.filter((one) => given.includes(one)))
