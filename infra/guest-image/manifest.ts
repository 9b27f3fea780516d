// What an image says of itself, in `manifest.json` beside its files. Written last: a folder with a manifest is whole.

import { createHash } from 'node:crypto'
import { createReadStream, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'

export type ImageFile = { file: string; size: number; sha256: string }

export type Manifest = {
  /** The layout of this document. */
  format: 1
  name: string
  /** Changes with every change of what is inside. */
  version: string
  arch: 'x86_64'
  /** The machine type it was made for; the host's newest of that kind. */
  machine: string
  kernel: ImageFile
  initrd: ImageFile
  disk: ImageFile & { format: 'qcow2'; virtual_size_bytes: number }
  /** The kernel's command line by default. */
  cmdline: string
  /** The ways a host may speak with the guest, best first. */
  transports: string[]
  /** Whether a program in the guest hands its clipboard to the host, and takes the host's. */
  clipboard: boolean
  /** What ready means, beyond that the guest answers: a command that then succeeds there. */
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

/** Whether every file of an image is there in its full size; digests are for whoever copies it. */
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
