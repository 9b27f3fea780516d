// The manifest beside each memory image: what it belongs to, and whether it may still be restored. What changes later is in
// fields of a fixed length within the file's first sector. So a change is one write in place, whole or not at all.
import { closeSync, openSync, readFileSync, writeFileSync, writeSync } from 'node:fs'
import { desktopSpec, id } from '@dormouse/contract'
import { z } from 'zod'
import { syncData, unlessMissing } from '../mechanics/durable-file.ts'
import { diskFull } from '../mechanics/full-disk.ts'

export const manifestSchema = z.object({
  /** `intended` before the save begins, `complete` when the file is whole and synced, `spent` before its guest resumes. */
  state: z.enum(['intended', 'complete', 'spent']),
  installationId: id,
  desktopId: id,
  generation: z.int().min(0),
  turn: z.int().min(0),
  operationId: id,
  imageVersion: z.string().nullable(),
  /** What its guest had; absent from a manifest of an earlier release. */
  guest: desktopSpec.pick({ vcpus: true, memoryMiB: true }).optional(),
  hypervisor: z.string(),
  emulator: z.string(),
  cpuModel: z.string(),
  machine: z.string(),
  bytes: z.int().min(0).nullable(),
  sha256: z.string().nullable(),
})
export type Manifest = z.infer<typeof manifestSchema>

/** Undefined if there is none, or if it is not one of ours. It is read on this thread, as it is written. */
export function readManifest(path: string): Manifest | undefined {
  try {
    return manifestSchema.parse(JSON.parse(readFileSync(path, 'utf8')))
  } catch (error) {
    if (!(error instanceof SyntaxError || error instanceof z.ZodError)) unlessMissing(error as NodeJS.ErrnoException)
    // Not ours, or cut off before its image was begun: such an image is never restored.
    return undefined
  }
}

/** Writes a new manifest. A power cut may undo it: it is synced by the caller. */
export function createManifest(path: string, manifest: Manifest): void {
  try {
    writeFileSync(path, textOf(manifest), { mode: 0o600 })
  } catch (error) {
    diskFull(error)
  }
}

/** Changes the fields that may change. Unless it is synced, a power cut may undo the change. */
export async function changeManifest(path: string, manifest: Manifest, { synced }: { synced: boolean }): Promise<void> {
  const file = openSync(path, 'r+')
  try {
    writeSync(file, headOf(manifest), 0)
    if (synced) await syncData(file)
  } finally {
    closeSync(file)
  }
}

const textOf = (manifest: Manifest): string => {
  const { state: _, bytes: __, sha256: ___, ...fixed } = manifest
  return `${headOf(manifest)}${JSON.stringify(fixed, null, 1).slice(1)}\n`
}

const stateLength = '"intended"'.length
const bytesLength = `${Number.MAX_SAFE_INTEGER}`.length
const digestLength = 64 + '""'.length

/** The fields that change, each with spaces behind its value. */
function headOf({ state, bytes, sha256 }: Pick<Manifest, 'state' | 'bytes' | 'sha256'>): string {
  const padded = (value: string | number | null, length: number) => JSON.stringify(value).padEnd(length)
  return `{"state":${padded(state, stateLength)},"bytes":${padded(bytes, bytesLength)},"sha256":${padded(sha256, digestLength)},`
}
