// What an agent says without being asked. A report is an observation, never a wish.
import { z } from 'zod'
import { observation } from './agents.ts'
import { id } from './ids.ts'

export const reports = {
  /** Something changed on the host that no command asked for: a guest powered off, its process died, it came back. */
  'desktop.observed': observation,
  /** A long save or restore advances; the operation's deadline is measured from here. */
  'operation.progress': z.object({
    desktopId: id,
    operationId: id,
    phase: z.enum(['disk', 'restoring', 'booting', 'waiting-for-guest', 'saving', 'syncing', 'removing']),
    doneBytes: z.int().min(0).nullable(),
    totalBytes: z.int().min(0).nullable(),
  }),
} as const

export type ReportName = keyof typeof reports
export type Report<N extends ReportName> = z.infer<(typeof reports)[N]>
