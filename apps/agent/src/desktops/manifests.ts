// The manifest beside each memory image: what it belongs to, and whether it may still be restored.
import { id } from '@dormouse/contract'
import { z } from 'zod'
import { readIfThere, writeDurably } from '../mechanics/durable-file.ts'
import { diskFull } from '../mechanics/full-disk.ts'

const manifestSchema = z.object({
  /** `intended` before the save begins, `complete` when the file is whole and synced, `spent` before its guest resumes. */
  state: z.enum(['intended', 'complete', 'spent']),
  installationId: id,
  desktopId: id,
  generation: z.int().min(0),
  turn: z.int().min(0),
  operationId: id,
  imageVersion: z.string().nullable(),
  hypervisor: z.string(),
  emulator: z.string(),
  cpuModel: z.string(),
  machine: z.string(),
  bytes: z.int().min(0).nullable(),
  sha256: z.string().nullable(),
})
export type Manifest = z.infer<typeof manifestSchema>

/** Undefined where there is none, or where it is not one of ours. */
export async function readManifest(path: string): Promise<Manifest | undefined> {
  const text = await readIfThere(path)
  if (text === undefined) return undefined
  try {
    return manifestSchema.parse(JSON.parse(text))
  } catch {
    // Manifests are written atomically, so this one is not ours: such an image is never restored.
    return undefined
  }
}

export async function writeManifest(path: string, manifest: Manifest): Promise<void> {
  await writeDurably(path, `${JSON.stringify(manifest, null, 1)}\n`).catch(diskFull)
}
