// What the host that made a copy writes for the one that restores it. The vault and the control plane keep it, and it is checked
// by the host that reads it.
import { z } from 'zod'
import { filesHandoff } from '../moves/handoff.ts'

const name = z
  .string()
  .min(1)
  .max(4_096)
  .refine((text) => !text.startsWith('/') && !text.startsWith('-') && !text.split('/').includes('..'))

export const copyHandoff = z.object({
  /** In the snapshot. */
  names: z.object({ disk: name, memory: name.nullable() }),
  files: filesHandoff,
})
export type CopyHandoff = z.infer<typeof copyHandoff>
