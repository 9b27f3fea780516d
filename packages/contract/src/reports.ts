// An agent's reports: observations that it sends by itself.
import { z } from 'zod'
import { observation } from './agents.ts'
import { id } from './ids.ts'

export const reports = {
  /** A change on the host without a command: a guest powered off, its process died, it returned. */
  'desktop.observed': observation,
  /** Progress of a long save or restore; the operation's deadline is measured from here. */
  'operation.progress': z.object({
    desktopId: id,
    operationId: id,
    phase: z.enum([
      'fetching',
      'disk',
      'restoring',
      'booting',
      'waiting-for-guest',
      'saving',
      'syncing',
      'removing',
      'moving',
      'relaying',
    ]),
    doneBytes: z.int().min(0).nullable(),
    totalBytes: z.int().min(0).nullable(),
  }),
} as const

export type ReportName = keyof typeof reports
export type Report<N extends ReportName> = z.infer<(typeof reports)[N]>
