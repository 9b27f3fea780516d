// Saved memories on this host's disk, each with its manifest. An image belongs to its disk exactly as saved: once a
// vCPU has run after a restore it is `spent`, and is never restored again. Knows nothing of who asks.
import { createHash } from 'node:crypto'
import { createReadStream, readFileSync, statfsSync, statSync } from 'node:fs'
import { readdir, rename, rm, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { type DesktopId, type DesktopSpec, type Fence, isId, refuse } from '@dormouse/contract'
import { Semaphore } from '@dormouse/process'
import type { SavedBy } from '../driver/driver.ts'
import { wholeMagic } from '../driver/saved-file.ts'
import { privateFolder, syncPath, unlessMissing } from '../mechanics/durable-file.ts'
import { ImageFolders, type ImageHead, readHead } from './image-folders.ts'
import { changeManifest, createManifest, type Manifest } from './manifests.ts'

const mib = 1024 * 1024
/** Syncs of whole images take long. More at once would leave no thread of the pool to the journal. */
const imageSyncsAtOnce = 2

export interface MemoryImage extends ImageHead {
  /** The file's name without its folder, as in the journal. */
  file: string
  path: string
  manifestPath: string
  manifest: Manifest
}

/** Removes what can be made again from the disk, while there is not enough space. */
type MakeSpace = (isShort: () => boolean) => Promise<void>

export class MemoryImages {
  readonly #folder: string
  readonly #folders: ImageFolders
  readonly #installationId: string
  readonly #makeSpace: MakeSpace
  /** Reserved by saves in progress, so that several at once do not count the same free space. */
  #reservedBytes = 0
  readonly #imageSyncs = new Semaphore(imageSyncsAtOnce)
  /** Desktops whose folder is known to be on the disk. */
  readonly #syncedFolders = new Set<DesktopId>()

  constructor(folder: string, installationId: string, makeSpace: MakeSpace = async () => undefined) {
    this.#folder = folder
    this.#makeSpace = makeSpace
    this.#folders = new ImageFolders(folder)
    this.#installationId = installationId
  }

  /** Every desktop with a folder here. */
  async desktops(): Promise<DesktopId[]> {
    return ((await readdir(this.#folder).catch(unlessMissing)) ?? []).filter(isId)
  }

  /** Newest first. */
  list(desktopId: DesktopId): MemoryImage[] {
    const found = this.#folders.list(desktopId)
    const ours = found.filter(({ manifest }) => manifest.installationId === this.#installationId)
    return ours.map(({ stem, ...image }) => ({ ...this.#filesOf(desktopId, stem), ...image })).sort(newestFirst)
  }

  #filesOf(desktopId: DesktopId, stem: string) {
    const path = join(this.#folder, desktopId, stem)
    return { file: `${stem}.save`, path: `${path}.save`, manifestPath: `${path}.json` }
  }

  /** Records that an image is about to be written, and where. A power cut may undo it: it ends the save, too. */
  async intend(fence: Fence, by: SavedBy, spec: DesktopSpec | null): Promise<MemoryImage> {
    privateFolder(join(this.#folder, fence.desktopId))
    const { desktopId, generation, turn, operationId } = fence
    const files = this.#filesOf(desktopId, `${generation}-${turn}-${operationId}`)
    const of = { installationId: this.#installationId, desktopId, generation, turn, operationId }
    const { imageVersion = null, vcpus, memoryMiB } = spec ?? {}
    const guest = vcpus && memoryMiB ? { guest: { vcpus, memoryMiB } } : {}
    const manifest: Manifest = { state: 'intended', ...of, imageVersion, ...guest, ...by, bytes: null, sha256: null }
    createManifest(files.manifestPath, manifest)
    this.#folders.namesChanged(desktopId)
    return { ...files, manifest, bytes: null, magic: '' }
  }

  /** The file is whole: it and the folders are synced first, then the manifest says so. */
  async complete(image: MemoryImage): Promise<MemoryImage> {
    const { desktopId } = image.manifest
    await Promise.all([
      this.#imageSyncs.run(() => syncPath(image.path)),
      syncPath(join(this.#folder, desktopId)),
      this.#syncedFolders.has(desktopId) || syncPath(this.#folder),
    ])
    this.#syncedFolders.add(desktopId)
    const head = readHead(image.path)
    return this.#rewrite({ ...image, ...head }, { state: 'complete', bytes: head.bytes }, { synced: true })
  }

  /**
   * Where the copy of a template's memory is that a new desktop begins with. It does not count as one of its saved memories.
   */
  copyPath(desktopId: DesktopId): string {
    const folder = join(this.#folder, desktopId)
    privateFolder(folder)
    return join(folder, 'template')
  }

  async removeCopy(desktopId: DesktopId): Promise<void> {
    await rm(join(this.#folder, desktopId, 'template'), { force: true })
  }

  /** Where a saved memory from another host is written until it is whole. */
  arrivingPath(desktopId: DesktopId): string {
    const folder = join(this.#folder, desktopId)
    privateFolder(folder)
    return join(folder, 'arriving')
  }

  /** The file that arrived is whole and synced: from now on it is this desktop's saved memory. */
  async adopt(manifest: Manifest): Promise<MemoryImage> {
    const { desktopId, generation, turn, operationId } = manifest
    const files = this.#filesOf(desktopId, `${generation}-${turn}-${operationId}`)
    await rename(this.arrivingPath(desktopId), files.path)
    createManifest(files.manifestPath, manifest)
    this.#folders.namesChanged(desktopId)
    return this.complete({ ...files, manifest, ...readHead(files.path) })
  }

  /** From now on it is never restored again. */
  async spend(image: MemoryImage): Promise<MemoryImage> {
    return this.#rewrite(image, { state: 'spent' }, { synced: true })
  }

  async #rewrite(image: MemoryImage, change: Partial<Manifest>, how: { synced: boolean }): Promise<MemoryImage> {
    const manifest = { ...image.manifest, ...change }
    const changing = changeManifest(image.manifestPath, manifest, how)
    this.#folders.manifestChanged(manifest.desktopId, image.file.replace(/\.save$/, ''))
    await changing
    return { ...image, manifest }
  }

  /**
   * Removes the file first: a manifest without a file is no image, but a file without a manifest would stay for good. A power
   * cut may bring a spent image back: it is spent still. Any other is gone for good when this returns.
   */
  async remove(image: MemoryImage): Promise<void> {
    await unlink(image.path).catch(unlessMissing)
    await unlink(image.manifestPath).catch(unlessMissing)
    this.#folders.namesChanged(image.manifest.desktopId)
    if (image.manifest.state === 'spent') return
    await syncPath(join(this.#folder, image.manifest.desktopId)).catch(unlessMissing)
  }

  async removeAll(desktopId: DesktopId): Promise<void> {
    this.#syncedFolders.delete(desktopId)
    await rm(join(this.#folder, desktopId), { recursive: true, force: true })
    this.#folders.namesChanged(desktopId)
    await syncPath(this.#folder).catch(unlessMissing)
  }

  /** Throws `memory_image_damaged` if the file is not exactly what was saved, as far as size and header tell. */
  verify(image: MemoryImage): void {
    const { bytes: saved } = image.manifest
    const { bytes, magic } = readHead(image.path)
    if (bytes === null) refuseMissing()
    if (bytes !== saved) refuseDamaged(`it has ${bytes} bytes where ${saved} were saved`)
    if (magic !== wholeMagic) refuseDamaged('its header is not that of a whole image')
  }

  /** Compares the digest, if there is one. It may run beside the restore, which must not resume before it. */
  async verifyDigest(image: MemoryImage, signal: AbortSignal): Promise<void> {
    if (!image.manifest.sha256) return
    if ((await digest(image.path, signal)) !== image.manifest.sha256) refuseDamaged('its digest differs')
  }

  /** Computes and records the digest, unless the image was removed or spent meanwhile. */
  async recordDigest(desktopId: DesktopId, file: string, signal: AbortSignal): Promise<void> {
    const isWanted = (image: MemoryImage) => image.file === file && image.manifest.state === 'complete'
    const image = this.list(desktopId).find(isWanted)
    if (!image || image.manifest.sha256) return
    const sha256 = await digest(image.path, signal)
    signal.throwIfAborted()
    const now = this.list(desktopId).find(isWanted)
    // Not synced: without a digest, size and header are compared.
    if (now) await this.#rewrite(now, { sha256 }, { synced: false })
  }

  /** Runs `save` with `memoryMiB` of disk reserved for it; `host_disk_full` if there is not that much free. */
  async withSpaceFor<T>(memoryMiB: number, save: () => Promise<T>): Promise<T> {
    const need = memoryMiB * mib
    privateFolder(this.#folder)
    if (this.#freeBytes() < need) await this.#makeSpace(() => this.#freeBytes() < need)
    const free = this.#freeBytes()
    if (free < need) {
      refuse(
        'host_disk_full',
        `the host has ${Math.max(0, Math.floor(free / mib))} MiB free to save ${memoryMiB} MiB of memory`,
      )
    }
    this.#reservedBytes += need
    try {
      return await save()
    } finally {
      this.#reservedBytes -= need
    }
  }

  #freeBytes(): number {
    const { bavail, bsize } = statfsSync(this.#folder)
    return bavail * bsize - this.#reservedBytes
  }
}

const remedy = 'it is kept; wake with discard_memory to boot from disk'

function refuseDamaged(why: string): never {
  refuse('memory_image_damaged', `the saved memory cannot be restored: ${why}; ${remedy}`)
}

function refuseMissing(): never {
  refuse(
    'memory_image_missing',
    'the saved memory is not where it was left; wake with discard_memory to boot from disk',
  )
}

function newestFirst(a: MemoryImage, b: MemoryImage): number {
  return b.manifest.generation - a.manifest.generation || b.manifest.turn - a.manifest.turn
}

async function digest(path: string, signal: AbortSignal): Promise<string> {
  const hash = createHash('sha256')
  // A simulated guest's: reading it here takes less than a turn of the thread pool.
  if (statSync(path).size <= mib) return hash.update(readFileSync(path)).digest('hex')
  for await (const chunk of createReadStream(path, { highWaterMark: mib, signal })) hash.update(chunk)
  return hash.digest('hex')
}
