// Fetches registered images into the agent's own folder. An image is there whole and verified, or not at all: its files are
// written to a hidden folder, which is renamed once all of them are on the disk. What a cut or a crash leaves is continued.
import { chmod, readdir, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { type ImageFetch, type ImageRef, imageFolderName, Refusal, refuse } from '@dormouse/contract'
import { type Failpoints, type Log, makeFolder, Semaphore } from '@dormouse/process'
import { unlessAborted } from '../mechanics/deadlines.ts'
import { syncPath, unlessMissing, writeDurably } from '../mechanics/durable-file.ts'
import { diskFull } from '../mechanics/full-disk.ts'
import { freeBytes, lowWaterBytes, reserveBytes } from './disk-space.ts'
import { fetchFile } from './fetch-file.ts'
import { type FetchableImage, manifestName, parseFetchable } from './fetchable.ts'
import type { Image } from './images.ts'
import { type ProgressLimits, usualLimits } from './progress-deadline.ts'
import { fetchManifest } from './read-manifest.ts'
import { sourceOf } from './sources.ts'
import type { ImageStore } from './store.ts'

export const partialPrefix = '.fetching-'
/** How many images are fetched at once: a file system that hangs occupies a thread for each. */
const atOnce = 2
const manifestTimeoutMs = 15_000
/** How many failed fetches are remembered. */
const maxRemembered = 50

export type FetchProgress = (doneBytes: number, totalBytes: number) => void

export interface FetcherOptions {
  store: ImageStore
  /** Removes unused images until this many bytes are free; returns whether they are. */
  makeSpace(bytes: number): Promise<boolean>
  failpoints: Failpoints
  log: Log
  limits?: ProgressLimits
}

interface Fetch {
  ref: ImageRef
  state: ImageFetch['state']
  doneBytes: number
  why: string | null
  /** A wake needs it. */
  needed: boolean
  done: Promise<Image>
  listeners: Set<FetchProgress>
}

export class ImageFetcher {
  readonly #options: FetcherOptions
  readonly #fetches = new Map<string, Fetch>()
  readonly #wanted = new Map<string, number>()
  readonly #slots = new Semaphore(atOnce)
  readonly #life = new AbortController()

  constructor(options: FetcherOptions) {
    this.#options = options
  }

  /** What this host fetches, and what it could not fetch lately. */
  states(): ImageFetch[] {
    return [...this.#fetches.values()].map(({ ref, state, doneBytes, why }) => ({
      image: imageFolderName(ref),
      digest: ref.digest,
      state,
      doneBytes: Math.max(0, doneBytes),
      totalBytes: ref.bytes,
      why,
    }))
  }

  /** The names of the images that a disk is about to be made of. */
  wanted(): string[] {
    return [...this.#wanted.keys()]
  }

  /** The folders that fetches in progress write to. */
  partials(): Set<string> {
    return new Set(
      [...this.#fetches.values()].filter((fetch) => fetch.state !== 'failed').map(({ ref }) => partialOf(ref)),
    )
  }

  /** Fetches the image and does the work; the image is not removed before that has ended. See `ensure`. */
  async having<T>(ref: ImageRef, signal: AbortSignal, progress: FetchProgress, work: () => Promise<T>): Promise<T> {
    const name = imageFolderName(ref)
    this.#wanted.set(name, (this.#wanted.get(name) ?? 0) + 1)
    try {
      await this.ensure(ref, signal, progress)
      return await work()
    } finally {
      const left = this.#wanted.get(name)! - 1
      if (left > 0) this.#wanted.set(name, left)
      else this.#wanted.delete(name)
    }
  }

  /**
   * The image, fetched if it is not here. Joins a fetch in progress. If `signal` aborts, the fetch goes on. Refuses with
   * `image_not_fetched` or `host_disk_full`.
   */
  async ensure(ref: ImageRef, signal: AbortSignal, progress: FetchProgress = () => undefined): Promise<Image> {
    const here = await this.#options.store.find(imageFolderName(ref), ref.digest)
    if (here) return here
    const fetch = this.#begin(ref)
    fetch.needed = true
    progress(fetch.doneBytes, ref.bytes)
    fetch.listeners.add(progress)
    try {
      return await unlessAborted(fetch.done, signal)
    } finally {
      fetch.listeners.delete(progress)
    }
  }

  /** Begins to fetch the image ahead of need, unless it is here. */
  async begin(ref: ImageRef): Promise<void> {
    if (!(await this.#options.store.find(imageFolderName(ref), ref.digest))) this.#begin(ref)
  }

  /** What is fetched stops; the next agent continues it. */
  async close(): Promise<void> {
    this.#life.abort(new Error('the agent was closed'))
    await Promise.allSettled([...this.#fetches.values()].map(({ done }) => done))
  }

  #begin(ref: ImageRef): Fetch {
    const key = `${imageFolderName(ref)} ${ref.digest} ${ref.source}`
    const known = this.#fetches.get(key)
    if (known && known.state !== 'failed') return known
    const fetch: Fetch = {
      ref,
      state: 'waiting',
      doneBytes: 0,
      why: null,
      needed: false,
      done: Promise.reject(),
      listeners: new Set(),
    }
    fetch.done.catch(() => undefined)
    fetch.done = this.#slots.run(() => this.#run(fetch), { signal: this.#life.signal })
    fetch.done.then(
      () => this.#fetches.delete(key),
      (error: unknown) => {
        fetch.state = 'failed'
        fetch.why = error instanceof Refusal ? error.detail : String(error)
        if (!this.#life.signal.aborted)
          this.#options.log.warn({ image: imageFolderName(ref), why: fetch.why }, 'an image could not be fetched')
      },
    )
    this.#fetches.delete(key)
    this.#fetches.set(key, fetch)
    this.#forget()
    return fetch
  }

  #forget(): void {
    const failed = [...this.#fetches].filter(([, { state }]) => state === 'failed')
    for (const [key] of failed.slice(0, Math.max(0, failed.length - maxRemembered))) this.#fetches.delete(key)
  }

  async #run(fetch: Fetch): Promise<Image> {
    const { store, failpoints, log } = this.#options
    const { ref } = fetch
    const [name, signal] = [imageFolderName(ref), this.#life.signal]
    fetch.state = 'fetching'
    log.info({ image: name, source: ref.source }, 'an image is fetched')
    const partial = join(store.fetchedDir, partialOf(ref))
    makeFolder(store.fetchedDir, 0o711)
    await this.#requireSpace(fetch, partial)
    const found = await unlessAborted(fetchManifest(sourceOf(ref.source), signal, manifestTimeoutMs), signal)
    if (found.digest !== ref.digest) {
      refuse(
        'image_not_fetched',
        `the SHA-256 of ${manifestName} is ${found.digest}, but ${name} was registered with ${ref.digest}`,
      )
    }
    const image = parseFetchable(found.text)
    if (image.bytes !== ref.bytes) refuse('image_not_fetched', `${name} was registered with another size; add it again`)
    await failpoints.hit('image.after-manifest')
    makeFolder(partial)
    await chmod(partial, 0o755)
    await this.#fetchFiles(fetch, image, partial)
    await writeDurably(join(partial, manifestName), found.text).catch(diskFull)
    await failpoints.hit('image.before-rename')
    await this.#place(partial, name, ref)
    await failpoints.hit('image.after-rename')
    await syncPath(store.fetchedDir)
    return (await store.find(name, ref.digest)) ?? refuse('image_not_fetched', `${name} was removed meanwhile`)
  }

  async #fetchFiles(fetch: Fetch, image: FetchableImage, partial: string): Promise<void> {
    const { limits = usualLimits, failpoints } = this.#options
    const source = sourceOf(fetch.ref.source)
    const progress = (bytes: number) => {
      fetch.doneBytes += bytes
      for (const listener of fetch.listeners) listener(Math.max(0, fetch.doneBytes), image.bytes)
    }
    const halfway = () => failpoints.hit('image.during-file')
    for (const file of image.files) {
      await fetchFile(file, join(partial, file.file), { source, limits, progress, halfway, signal: this.#life.signal })
      await failpoints.hit('image.after-file')
    }
  }

  async #requireSpace({ ref, needed }: Fetch, partial: string): Promise<void> {
    const { store, makeSpace } = this.#options
    const spared = needed ? reserveBytes : await lowWaterBytes(store.fetchedDir)
    const wanted = Math.max(0, ref.bytes - (await sizeOf(partial))) + spared
    if ((await freeBytes(store.fetchedDir)) >= wanted || (needed && (await makeSpace(wanted)))) return
    refuse(
      'host_disk_full',
      `the host needs ${wanted} free bytes to fetch the image, and has no unused image to remove`,
    )
  }

  /** A version never changes, so a folder of that name with another image stays as it is. */
  async #place(partial: string, name: string, { digest }: ImageRef): Promise<void> {
    const { store } = this.#options
    const there = await store.isFetched(name)
    if (there && there.manifestDigest !== digest) {
      refuse('image_not_fetched', `the host has fetched another image as ${name}; register this one as another version`)
    }
    if (there) await rm(partial, { recursive: true, force: true })
    else await rename(partial, store.pathOfFetched(name))
  }
}

/** One name for each attempt at the same image, so that it can be continued. */
const partialOf = (ref: ImageRef): string => `${partialPrefix}${imageFolderName(ref)}-${ref.digest.slice(0, 16)}`

async function sizeOf(folder: string): Promise<number> {
  const names = (await readdir(folder).catch(unlessMissing)) ?? []
  const sizes = await Promise.all(names.map((name) => stat(join(folder, name)).catch(unlessMissing)))
  return sizes.reduce((sum, found) => sum + (found?.size ?? 0), 0)
}
