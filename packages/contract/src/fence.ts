// What orders the commands to hosts, and what a host has to make of a desktop.
import { z } from 'zod'
import { durationMs } from './bounds.ts'
import { id } from './ids.ts'
import { shares } from './shares.ts'

/** Orders commands. A host refuses a lower epoch, and a lower (generation, turn) of a desktop. An equal one joins the work in progress, or repeats its outcome. */
export const fence = z.object({
  desktopId: id,
  epoch: z.int().min(1),
  generation: z.int().min(0),
  turn: z.int().min(0),
  operationId: id,
  /** Relative, since clocks differ: how long the control plane waits for the result. */
  deadlineMs: durationMs,
})
export type Fence = z.infer<typeof fence>

export const desktopSpec = z.object({
  vcpus: z.int().min(1),
  memoryMiB: z.int().min(16),
  diskGiB: z.int().min(1),
  imageVersion: z.string(),
  /** What it gets while others want the same. Without it the host limits nothing. An agent of release 0.1 ignores it. */
  shares: shares.optional(),
})
export type DesktopSpec = z.infer<typeof desktopSpec>

/** The size that a desktop has on its host: a saved memory keeps its own. An agent of release 0.1 does not report it. */
export const desktopSize = desktopSpec.pick({ vcpus: true, memoryMiB: true, diskGiB: true })
export type DesktopSize = z.infer<typeof desktopSize>
