// The description of an image, `manifest.json` beside its files. It is written last: a folder with a manifest is complete.

import { createHash } from 'node:crypto'
import { createReadStream, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'

export type ImageFile = { file: string; size: number; sha256: string }

export type Manifest = {
  /** The version of this format. */
  format: 1
  name: string
  /** Changes whenever the contents change. */
  version: string
  arch: 'x86_64'
  /** QEMU's machine type; the host uses its newest version of it. */
  machine: string
  kernel: ImageFile
  initrd: ImageFile
  disk: ImageFile & { format: 'qcow2'; virtual_size_bytes: number }
  /** The kernel's command line. */
  cmdline: string
  /** Whether the guest shares its clipboard with the host. */
  clipboard: boolean
  /** Which characters the keys of its guests type: `us` (the default), `gb`, `de` or `de-nodeadkeys`. */
  keyboard_layout?: string
  /** A command that succeeds in the guest once it is ready. Without it, a guest that responds is ready. */
  ready?: { command: string[]; try_timeout_secs: number }
  kernel_version: string
  /** Package → version. */
  built_from: Record<string, string>
  /** The distribution whose packages these are. */
  distribution: string
  /** Digest of the recipe. */
  recipe: string
}

export function readManifest(dir: string): Manifest {
  return JSON.parse(readFileSync(join(dir, 'manifest.json'), 'utf8')) as Manifest
}

/** Whether every file of an image has its full size. Digests are checked when an image is copied. */
export function isWhole(dir: string, { kernel, initrd, disk }: Manifest): boolean {
  return [kernel, initrd, disk].every(
    ({ file, size }) => statSync(join(dir, file), { throwIfNoEntry: false })?.size === size,
  )
}

/** Size and digest of a file of the image. */
export async function describeFile(dir: string, file: string): Promise<ImageFile> {
  const hash = createHash('sha256')
  await pipeline(createReadStream(join(dir, file)), hash)
  return { file, size: statSync(join(dir, file)).size, sha256: hash.digest('hex') }
}
