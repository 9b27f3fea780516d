// Removes fetched images that nothing uses when the disk is nearly full, the one that was used longest ago first. What a disk
// stands on is looked up, never guessed: if it cannot be found out, nothing is removed.
import { readdir, rename, rm, stat } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { eachDone, type Failpoints, type Log } from '@dormouse/process'
import { privateFolder, syncPath, unlessMissing } from '../mechanics/durable-file.ts'
import { freeBytes, lowWaterBytes } from './disk-space.ts'
import { partialPrefix } from './fetcher.ts'
import { findImage, listImages } from './images.ts'
import type { ImageStore } from './store.ts'

export interface EvictionOptions {
  store: ImageStore
  /** The folders of the images that disks on this host stand on. Throws if that is not known. */
  foldersInUse(): Promise<Set<string>>
  /** The names of images for which a disk is being made, also by an agent that has died meanwhile. */
  namesInUse(): Set<string>
  /** The hidden folders that fetches write to now. */
  partials(): Set<string>
  /** Templates need their images, and are removed before them. */
  templates: {
    removeWhile(condition: () => Promise<boolean>): Promise<void>
    removeOn(manifestDigest: string): Promise<void>
  }
  failpoints: Failpoints
  log: Log
  free?: (folder: string) => Promise<number>
}

export const removingPrefix = '.removing-'
/** A fetch that nobody has continued for this long is given up. */
const partialKeptMs = 24 * 3_600_000

export class ImageEviction {
  readonly #options: EvictionOptions

  constructor(options: EvictionOptions) {
    this.#options = options
  }

  /** To be called every minute or so: removes templates, then unused images, while the disk is nearly full. */
  async check(): Promise<void> {
    // A host that has never fetched an image may have templates.
    const folder = privateFolder(this.#options.store.fetchedDir, 0o711)
    const removeHidden = () => this.#removeHidden((name) => name.startsWith(removingPrefix))
    const makeSpace = async () => this.makeSpace(await lowWaterBytes(folder))
    await eachDone([removeHidden, makeSpace], (work) => work())
  }

  /**
   * Removes unused images until this many bytes are free; returns whether they are. What cannot be removed delays nothing else.
   */
  async makeSpace(bytes: number): Promise<boolean> {
    const { store, log, free = freeBytes } = this.#options
    const isEnough = async () => (await free(store.fetchedDir)) >= bytes
    if (await isEnough()) return true
    const removeImages = async () =>
      eachDone(await this.#oldestFirst(), async (name) => (await isEnough()) || this.#remove(name))
    const removeTemplates = () => this.#options.templates.removeWhile(async () => !(await isEnough()))
    try {
      await eachDone([() => this.#removeOldPartials(), removeTemplates, removeImages], (work) => work())
    } catch (err) {
      if (!(await isEnough())) throw err
      log.warn({ err }, 'an unused image, or a part of one, could not be removed; retrying')
    }
    return isEnough()
  }

  /** By when a disk was made of it last, or it was fetched. */
  async #oldestFirst(): Promise<string[]> {
    const { fetchedDir } = this.#options.store
    const names = await listImages(fetchedDir)
    const times = await Promise.all(names.map(async (name) => ({ name, at: await usedAt(join(fetchedDir, name)) })))
    return times.sort((a, b) => a.at - b.at).map(({ name }) => name)
  }

  /** Removes the image unless it is used. It is out of reach of new disks before the files go. */
  async #remove(name: string): Promise<void> {
    const { store, templates, failpoints, log } = this.#options
    const [path, hidden] = [store.pathOfFetched(name), join(store.fetchedDir, `${removingPrefix}${name}`)]
    const isHidden = await store.removing(async () => {
      if (await this.#isUsed(path)) return false
      await failpoints.hit('image.before-remove')
      const image = await findImage(store.fetchedDir, name)
      if (image) await templates.removeOn(image.manifestDigest)
      await rm(hidden, { recursive: true, force: true })
      await rename(path, hidden)
      await syncPath(store.fetchedDir)
      return true
    })
    if (!isHidden) return
    await failpoints.hit('image.after-hide')
    await rm(hidden, { recursive: true, force: true })
    log.info({ image: name }, 'an unused image was removed because the disk is nearly full')
  }

  async #isUsed(path: string): Promise<boolean> {
    const { foldersInUse, namesInUse } = this.#options
    return namesInUse().has(basename(path)) || (await foldersInUse()).has(path)
  }

  async #removeOldPartials(): Promise<void> {
    const { store, partials } = this.#options
    const since = Date.now() - partialKeptMs
    await this.#removeHidden(async (name) => {
      if (!name.startsWith(partialPrefix) || partials().has(name)) return false
      return (await usedAt(join(store.fetchedDir, name))) < since
    })
  }

  async #removeHidden(which: (name: string) => boolean | Promise<boolean>): Promise<void> {
    const { fetchedDir } = this.#options.store
    await eachDone((await readdir(fetchedDir).catch(unlessMissing)) ?? [], async (name) => {
      if (await which(name)) await rm(join(fetchedDir, name), { recursive: true, force: true })
    })
  }
}

const usedAt = async (folder: string): Promise<number> => (await stat(folder).catch(unlessMissing))?.mtimeMs ?? 0

/** The folders of the images that these backing files belong to. */
export const foldersOf = (backingFiles: readonly string[]): Set<string> => new Set(backingFiles.map(dirname))
