// Where images lie. Knows nothing of what is in them.
//
// An image is never changed in place, since desktops' disks are overlays on it: every version has a folder of its own,
// `<imagesDir>/<name>@<version>`, and `<imagesDir>/<name>` leads to the newest.

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
import type { Say } from '../../scripts/ground/processes.ts'
import { describeFile, isWhole, type Manifest, readManifest } from './manifest.ts'
import { digest, distribution, recipeDigest } from './recipe.ts'

export type Image = { dir: string; manifest: Manifest }

/** Where an image is wanted; `renew` builds it again where the distribution has newer packages. */
export type Wish = { imagesDir: string; say: Say; renew?: boolean }

/** What the maker of an image says of it; the rest of the manifest is found out here. */
export type Facts = Pick<Manifest, 'cmdline' | 'transports' | 'clipboard' | 'ready' | 'kernel_version'> & {
  diskMiB: number
}

export type Materials = {
  /** Package → version. */
  packages: Record<string, string>
  /** Writes `vmlinuz`, `initrd` and `disk.qcow2` into the folder. */
  make: (out: string, version: string) => Promise<Facts>
}

export type Maker = {
  name: string
  /** Brings the packages into the folder. */
  gather: (work: string, say: Say) => Promise<Materials>
}

/** Answers the newest image below this folder, and builds it where this recipe has not been built there yet. */
export async function ensureImage(maker: Maker, { imagesDir, say, renew = false }: Wish): Promise<Image> {
  const recipe = recipeDigest(maker.name)
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

/** Two builds at once do not meet before the rename, and there the first one wins. */
async function build({ name, gather }: Maker, imagesDir: string, recipe: string, say: Say): Promise<Image> {
  mkdirSync(imagesDir, { recursive: true })
  const work = mkdtempSync(join(imagesDir, '.making-'))
  try {
    say(`Fetching the packages of the ${name} guest`)
    const { packages, make } = await gather(work, say)
    const versions = Object.entries(packages).map(([each, version]) => `${each}=${version}`)
    const version = digest([recipe, ...versions]).slice(0, 12)
    const dir = join(imagesDir, `${name}@${version}`)
    if (!existsSync(dir)) {
      say(`Building the ${name} guest ${version}`)
      const out = join(work, 'out')
      mkdirSync(out)
      const facts = await make(out, version)
      await describe(out, { name, version, recipe, packages }, facts)
      place(out, dir)
    }
    lead(join(imagesDir, name), `${name}@${version}`)
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

/** Where another build was first, its result stays: it is of the same version, and may be in use. */
function place(out: string, dir: string): void {
  try {
    renameSync(out, dir)
  } catch (error) {
    if (!['ENOTEMPTY', 'EEXIST'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error
  }
}

/** Points the link to the folder, in one step for whoever reads it. */
function lead(link: string, target: string): void {
  const fresh = `${link}.${process.pid}`
  rmSync(fresh, { force: true })
  symlinkSync(target, fresh)
  renameSync(fresh, link)
}
