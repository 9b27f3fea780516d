// The images on this host: one folder each, complete once it has its manifest. A folder is never changed in place, since
// disks are overlays on it; a name may be a symbolic link to the newest version.
import { createHash } from 'node:crypto'
import { readdir, readFile, readlink } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { z } from 'zod'
import { unlessMissing } from '../mechanics/durable-file.ts'
import { parseJson } from '../mechanics/parse-json.ts'

const fileSchema = z.object({ file: z.string().regex(/^[^/]+$/), sha256: z.string().length(64).optional() })
const manifestSchema = z.object({
  name: z.string(),
  version: z.string(),
  machine: z.string(),
  kernel: fileSchema,
  initrd: fileSchema,
  disk: fileSchema.extend({ virtual_size_bytes: z.int() }),
  cmdline: z.string(),
  clipboard: z.boolean().default(false),
  keyboard_layout: z.string().max(60).default('us'),
  ready: z
    .object({
      command: z.union([z.string().min(1), z.array(z.string()).min(1)]),
      try_timeout_secs: z.int().min(1).max(60).default(5),
    })
    .optional(),
})

/** When a guest that answers is ready: when a command succeeds. How long one try of it may take. */
export interface Readiness {
  command: string | string[]
  tryTimeoutSecs: number
}

/** What a guest of this image starts with; paths are as QEMU sees them. */
export interface Image {
  kernel: string
  initrd: string
  disk: string
  virtualBytes: number
  cmdline: string
  /** What two hosts compare, whatever the image is called on each; undefined if its manifest has no digests. */
  digest: string | undefined
  /** SHA-256 of its manifest: what it was registered with. */
  manifestDigest: string
  /** A machine type's family, such as `pc` or `q35`. */
  machine: string
  /** Whether a program in its guests shares their clipboard with the host (spice-vdagent). */
  clipboard: boolean
  /** Which characters the keys of its guests type, such as `us`. Images before this field have an American layout. */
  keyboardLayout: string
  /** Undefined if every guest that answers is ready. */
  ready: Readiness | undefined
}

/** The versions that a desktop can be created from. */
export async function listImages(imagesDir: string): Promise<string[]> {
  const names = await namesIn(imagesDir)
  const found = await Promise.all(
    names.map(async (name) => ((await readImage(join(imagesDir, name))) ? name : undefined)),
  )
  return found.filter((name) => name !== undefined)
}

/** The image of that version, its link followed. A version is used in a path only if a folder has exactly that name. */
export async function findImage(imagesDir: string, version: string): Promise<Image | undefined> {
  if (!(await namesIn(imagesDir)).includes(version)) return undefined
  const target = await readlink(join(imagesDir, version)).catch(() => version)
  return readImage(join(imagesDir, basename(target)))
}

/** Hidden folders are images that are being built or fetched. */
const namesIn = async (imagesDir: string): Promise<string[]> =>
  ((await readdir(imagesDir).catch(unlessMissing)) ?? []).filter((name) => !name.startsWith('.'))

/** The image that a disk is an overlay on, by the path of its backing file. */
export function imageOfDisk(backingFile: string): Promise<Image | undefined> {
  return readImage(dirname(backingFile))
}

async function readImage(folder: string): Promise<Image | undefined> {
  const text = await readFile(join(folder, 'manifest.json'), 'utf8').catch(unlessNoFolder)
  return text === undefined ? undefined : readManifest(folder, text)
}

/** The image in that folder by the text of its manifest; undefined if that is not an image's. */
export function readManifest(folder: string, text: string): Image | undefined {
  const parsed = manifestSchema.safeParse(parseJson(text))
  if (!parsed.success) return undefined
  const { kernel, initrd, disk, cmdline, machine, clipboard, ready, keyboard_layout } = parsed.data
  return {
    kernel: join(folder, kernel.file),
    initrd: join(folder, initrd.file),
    disk: join(folder, disk.file),
    virtualBytes: disk.virtual_size_bytes,
    cmdline,
    machine,
    clipboard,
    keyboardLayout: keyboard_layout,
    digest: digestOf([disk, kernel, initrd]),
    manifestDigest: createHash('sha256').update(text).digest('hex'),
    ready: ready && { command: ready.command, tryTimeoutSecs: ready.try_timeout_secs },
  }
}

function digestOf(files: { sha256?: string | undefined }[]): string | undefined {
  const digests = files.map(({ sha256 }) => sha256)
  if (digests.includes(undefined)) return undefined
  return createHash('sha256').update(digests.join('\n')).digest('hex')
}

function unlessNoFolder(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOTDIR') unlessMissing(error)
}
