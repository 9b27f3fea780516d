// The folder of images. Does not know what is in an image.
//
// An image never changes, since desktops' disks are overlays on it. Every version has its own folder,
// `<imagesDir>/<name>@<version>`, and `<imagesDir>/<name>` is a link to the newest.

import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readlinkSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import type { Say } from '../../scripts/testbed/processes.ts'
import { describeFile, isWhole, type Manifest, readManifest } from './manifest.ts'
import { digest, distribution, recipeDigest } from './recipe.ts'

export type Image = { dir: string; manifest: Manifest }

/** `renew` builds the image again if the distribution has newer packages. */
export type ImageRequest = { imagesDir: string; say: Say; renew?: boolean }

/** The part of the manifest that an image's maker provides. */
export type Facts = Pick<Manifest, 'cmdline' | 'clipboard' | 'keyboard_layout' | 'ready' | 'kernel_version'> & {
  diskMiB: number
}

export type Materials = {
  /** Package → version. */
  packages: Record<string, string>
  /** Writes `vmlinuz`, `initrd` and `disk.qcow2` into the folder. */
  make: (out: string, version: string) => Promise<Facts>
}

export type Maker = {
  /** The image's name. */
  name: string
  /** The name of the recipe in this folder. */
  recipe: string
  /** What the recipe's user adds to it; it decides about the version. */
  own?: readonly string[]
  /** Downloads the packages into the folder. */
  gather: (work: string, say: Say) => Promise<Materials>
}

/** Returns the newest image in this folder, and builds it if this recipe has not been built there yet. */
export async function ensureImage(maker: Maker, { imagesDir, say, renew = false }: ImageRequest): Promise<Image> {
  const recipe = recipeDigest(maker.recipe, maker.own)
  const image = newest(imagesDir, maker.name)
  if (image && !renew && image.manifest.recipe === recipe) return image
  return build(maker, imagesDir, recipe, say)
}

function newest(imagesDir: string, name: string): Image | undefined {
  const link = join(imagesDir, name)
  if (!existsSync(join(link, 'manifest.json'))) return undefined
  const dir = join(imagesDir, readlinkSync(link))
  const manifest = readManifest(dir)
  return isWhole(dir, manifest) ? { dir, manifest } : undefined
}

/** Concurrent builds do not affect each other before the rename. There the first one wins. */
async function build({ name, gather }: Maker, imagesDir: string, recipe: string, say: Say): Promise<Image> {
  mkdirSync(imagesDir, { recursive: true })
  const work = mkdtempSync(join(imagesDir, '.making-'))
  try {
    say(`Downloading the packages of the ${name} image`)
    const { packages, make } = await gather(work, say)
    const versions = Object.entries(packages).map(([each, version]) => `${each}=${version}`)
    const version = digest([recipe, ...versions]).slice(0, 12)
    const dir = join(imagesDir, `${name}@${version}`)
    if (!existsSync(dir)) {
      say(`Building the ${name} image ${version}`)
      const out = join(work, 'out')
      mkdirSync(out)
      const facts = await make(out, version)
      await describe(out, { name, version, recipe, packages }, facts)
      place(out, dir)
    }
    pointTo(join(imagesDir, name), `${name}@${version}`)
    return { dir, manifest: readManifest(dir) }
  } finally {
    rmSync(work, { recursive: true, force: true })
  }
}

type Title = { name: string; version: string; recipe: string; packages: Record<string, string> }

async function describe(out: string, title: Title, { diskMiB, ...facts }: Facts): Promise<void> {
  const { id, release } = distribution()
  const { name, version, recipe, packages } = title
  const manifest: Manifest = {
    format: 1,
    name,
    version,
    arch: 'x86_64',
    machine: 'pc',
    kernel: await describeFile(out, 'vmlinuz'),
    initrd: await describeFile(out, 'initrd'),
    disk: { ...(await describeFile(out, 'disk.qcow2')), format: 'qcow2', virtual_size_bytes: diskMiB * 2 ** 20 },
    ...facts,
    built_from: packages,
    distribution: `${id} ${release}`,
    recipe,
  }
  writeFileSync(join(out, 'manifest.json'), `${JSON.stringify(manifest, null, 2)}\n`)
}

/** If another build was first, its result stays: it has the same version, and may be in use. */
function place(out: string, dir: string): void {
  try {
    renameSync(out, dir)
  } catch (error) {
    if (!['ENOTEMPTY', 'EEXIST'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error
  }
}

/** Points the link to the folder, atomically. */
function pointTo(link: string, target: string): void {
  const fresh = `${link}.${process.pid}`
  rmSync(fresh, { force: true })
  symlinkSync(target, fresh)
  renameSync(fresh, link)
}
