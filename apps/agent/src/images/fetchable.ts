// What of an image is fetched: the files that its manifest names, with their sizes and digests. The manifest comes from a
// server that may be hostile, so each name stays inside the image's folder.
import { imageName, imageVersionName, maxImageBytes, refuse, sha256Hex } from '@dormouse/contract'
import { z } from 'zod'
import { parseJson } from '../mechanics/parse-json.ts'
import { readManifest } from './images.ts'

export const manifestName = 'manifest.json'
/** A manifest names some hundred packages. */
export const maxManifestBytes = 1024 * 1024

const fileSchema = z.object({
  file: z.string().regex(/^[A-Za-z0-9][\w.+-]{0,99}$/, 'must be a plain file name'),
  size: z.int().min(0).max(maxImageBytes),
  sha256: sha256Hex,
})
const schema = z.object({
  name: imageName,
  version: imageVersionName,
  disk: fileSchema,
  initrd: fileSchema,
  kernel: fileSchema,
})

export type ImageFile = z.infer<typeof fileSchema>

export interface FetchableImage {
  name: string
  version: string
  files: ImageFile[]
  /** The size of all files together. */
  bytes: number
}

/** Refuses a manifest that no host could fetch, or make a disk from, with what is wrong in it. */
export function parseFetchable(text: string): FetchableImage {
  const parsed = schema.safeParse(parseJson(text))
  if (!parsed.success) {
    const [issue] = parsed.error.issues
    return wrong(`${issue!.path.join('.') || 'it'}: ${issue!.message}`)
  }
  const { name, version, disk, initrd, kernel } = parsed.data
  const files = [kernel, initrd, disk]
  const names = new Set(files.map(({ file }) => file))
  if (names.size < files.length || names.has(manifestName)) return wrong('its files must have different names')
  if (!readManifest('/', text)) return wrong('it lacks what a guest needs to start; build it with `npm run image`')
  const bytes = files.reduce((sum, { size }) => sum + size, 0)
  if (bytes < 1 || bytes > maxImageBytes) return wrong(`its files have ${bytes} bytes; at most ${maxImageBytes} can be`)
  return { name, version, files, bytes }
}

const wrong = (why: string): never => refuse('image_not_fetched', `its manifest cannot be used: ${why}`)
