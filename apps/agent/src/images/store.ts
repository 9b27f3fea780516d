// All images of this host: those that its operator has put into a folder, and those that the agent has fetched into one of its
// own. Only the agent's own folder is ever written, and only from it is anything removed.
import { utimes } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { ReadWriteLock } from '@dormouse/process'
import { findImage, type Image, listImages } from './images.ts'

export interface ImageStoreFolders {
  /** The operator's folder; undefined if there is none. */
  given: string | undefined
  /** The agent's own. */
  fetched: string
}

export class ImageStore {
  readonly fetchedDir: string
  readonly #folders: readonly string[]
  readonly #use = new ReadWriteLock()

  constructor({ given, fetched }: ImageStoreFolders) {
    this.fetchedDir = fetched
    this.#folders = given === undefined ? [fetched] : [given, fetched]
  }

  /** The versions that a desktop can be created from. */
  async list(): Promise<string[]> {
    const found = await Promise.all(this.#folders.map(listImages))
    return [...new Set(found.flat())]
  }

  /** Every image by the name of its folder; a name may lead to two. */
  async all(): Promise<{ name: string; image: Image }[]> {
    const found = await Promise.all(
      this.#folders.map(async (folder) => {
        const names = await listImages(folder)
        return Promise.all(names.map(async (name) => ({ name, image: await findImage(folder, name) })))
      }),
    )
    return found.flat().filter((one): one is { name: string; image: Image } => one.image !== undefined)
  }

  /** The image of that version, with that manifest if one is named. */
  async find(version: string, manifestDigest?: string): Promise<Image | undefined> {
    for (const folder of this.#folders) {
      const image = await findImage(folder, version)
      if (image && (manifestDigest === undefined || image.manifestDigest === manifestDigest)) return image
    }
    return undefined
  }

  /** The image whose files are the same as those of another host's. */
  async findByDigest(digest: string): Promise<Image | undefined> {
    return (await this.all()).find(({ image }) => image.digest === digest)?.image
  }

  /** The image was used now: it is not the first to be removed. */
  async noteUse({ disk }: Image): Promise<void> {
    const now = new Date()
    const folder = dirname(disk)
    if (dirname(folder) === this.fetchedDir) await utimes(folder, now, now)
  }

  /** Whether this name in the agent's own folder is taken, by any image. */
  isFetched(name: string): Promise<Image | undefined> {
    return findImage(this.fetchedDir, name)
  }

  pathOfFetched(name: string): string {
    return join(this.fetchedDir, name)
  }

  /** No image is removed while the work runs: for everything between looking for an image and having a disk on it. */
  using<T>(work: () => Promise<T>): Promise<T> {
    return this.#use.read(work)
  }

  /** Nothing uses images while the work runs. */
  removing<T>(work: () => Promise<T>): Promise<T> {
    return this.#use.write(work)
  }
}
