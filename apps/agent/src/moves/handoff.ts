// What the two hosts of a cold move write to each other. Each is checked by the host that reads it: the other one may be
// broken or hostile.
import { type DesktopId, type DesktopSpec, refuse } from '@dormouse/contract'
import { z } from 'zod'
import { type Manifest, manifestSchema } from '../desktops/manifests.ts'
import { parseJson } from '../mechanics/parse-json.ts'

/** Parts of the entry in the old host's journal. */
const entryParts = {
  ready: z.boolean(),
  furnished: z.boolean(),
}

/** The old host's: which files there are. */
export const filesHandoff = z.object({
  diskBytes: z.int().min(1),
  ...entryParts,
  memory: z.object({ bytes: z.int().min(1), manifest: manifestSchema }).nullable(),
})
export type FilesHandoff = z.infer<typeof filesHandoff>

/** The old host's, after all was sent: the digest of each file. */
export const rootsHandoff = z.record(z.string().max(16), z.string().length(64))

/** The old host's, for a desktop that runs: the hypervisor's handoff, and that of the agent. */
export const liveHandoff = z.object({ hypervisor: z.string(), ...entryParts })

export interface Arriving {
  spec: DesktopSpec
  imageDigest: string
  ready: boolean
  furnished: boolean
  /** Only in a cold move. */
  files: FilesHandoff | undefined
}

/** The text as that handoff; refuses one that is not. */
export function readHandoff<T>(schema: z.ZodType<T>, text: string): T {
  const parsed = schema.safeParse(parseJson(text))
  return parsed.success ? parsed.data : refuse('hypervisor_failed', 'the other host’s handoff cannot be read')
}

const gib = 1024 ** 3

/** A hostile host cannot make this one keep or read more than twice what the desktop may have. The format takes some, too. */
export function requirePlausible({ diskBytes, memory }: FilesHandoff, { diskGiB, memoryMiB }: DesktopSpec): void {
  const isPlausible = diskBytes <= 2 * diskGiB * gib + gib && (memory?.bytes ?? 0) <= (2 * memoryMiB * gib) / 1024 + gib
  if (!isPlausible) refuse('hypervisor_failed', 'the other host’s files are larger than the desktop’s may be')
}

/** A manifest from another host counts only for this desktop, and only for memory that may be restored. */
export function requireOwn(manifest: Manifest, desktopId: DesktopId, installationId: string): void {
  const isOwn = manifest.desktopId === desktopId && manifest.installationId === installationId
  if (!isOwn || manifest.state !== 'complete')
    refuse('hypervisor_failed', 'the other host’s handoff is about other memory')
}
