// Puts a built image into a folder that any web server serves, and hosts fetch it from. A version is there whole or not at all:
// it is copied beside its place, compared with its manifest, and renamed.
import { createHash } from 'node:crypto'
import { chmodSync, constants, existsSync, readFileSync } from 'node:fs'
import { copyFile, mkdir, mkdtemp, open, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { describeFile, type Manifest } from '../guest-image/manifest.ts'

export type Published = {
  dir: string
  /** SHA-256 of `manifest.json`: what the image is registered with. */
  digest: string
}

/** Publishes the image; the same one again changes nothing. Throws if another content is published as this version. */
export async function publish(image: { dir: string; manifest: Manifest }, folder: string): Promise<Published> {
  const { name, version } = image.manifest
  const [dir, digest] = [join(folder, `${name}@${version}`), digestOf(image.dir)]
  if (existsSync(dir)) {
    if (digestOf(dir) === digest) return { dir, digest }
    throw new Error(`${dir} holds another content; a version never changes, so build the image with another version`)
  }
  await mkdir(folder, { recursive: true })
  const work = await mkdtemp(join(folder, '.publishing-'))
  try {
    await copyImage(image, work)
    await rename(work, dir)
    await sync(folder)
  } finally {
    await rm(work, { recursive: true, force: true })
  }
  return { dir, digest }
}

async function copyImage({ dir, manifest }: { dir: string; manifest: Manifest }, to: string): Promise<void> {
  const { kernel, initrd, disk } = manifest
  for (const { file, sha256 } of [kernel, initrd, disk]) {
    await copy(join(dir, file), join(to, file))
    if ((await describeFile(to, file)).sha256 !== sha256)
      throw new Error(`${join(dir, file)} is not what its manifest says`)
  }
  await copy(join(dir, 'manifest.json'), join(to, 'manifest.json'))
  // A web server runs as another user.
  chmodSync(to, 0o755)
  await sync(to)
}

async function copy(from: string, to: string): Promise<void> {
  await copyFile(from, to, constants.COPYFILE_FICLONE)
  chmodSync(to, 0o644)
  await sync(to)
}

async function sync(path: string): Promise<void> {
  const file = await open(path, 'r')
  try {
    await file.sync()
  } finally {
    await file.close()
  }
}

const digestOf = (dir: string): string =>
  createHash('sha256')
    .update(readFileSync(join(dir, 'manifest.json')))
    .digest('hex')
