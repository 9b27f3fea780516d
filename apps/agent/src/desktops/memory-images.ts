// Saved memories on this host's disk, each with its manifest. An image belongs to its disk exactly as saved: once a
// vCPU has run after a restore it is `spent`, and is never restored again. Knows nothing of who asks.
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { open, readdir, rm, stat, statfs } from 'node:fs/promises'
import { join } from 'node:path'
import { type DesktopId, type Fence, isId, refuse } from '@dormouse/contract'
import type { SavedBy } from '../driver/driver.ts'
import { headerBytes, wholeMagic } from '../driver/saved-file.ts'
import { privateFolder, syncPath, unlessMissing } from '../mechanics/durable-file.ts'
import { type Manifest, readManifest, writeManifest } from './manifests.ts'

const mib = 1024 * 1024

export interface MemoryImage {
  /** The file's name without its folder, as in the journal. */
  file: string
  path: string
  manifestPath: string
  manifest: Manifest
  /** Null where there is no file. */
  bytes: number | null
  magic: string
}

export class MemoryImages {
  readonly #folder: string
  readonly #installationId: string
  /** Reserved by saves in progress, so that several at once do not count the same free space. */
  #reservedBytes = 0

  constructor(folder: string, installationId: string) {
    this.#folder = folder
    this.#installationId = installationId
  }

  /** Every desktop with a folder here. */
  async desktops(): Promise<DesktopId[]> {
    return ((await readdir(this.#folder).catch(unlessMissing)) ?? []).filter(isId)
  }

  /** Newest first. */
  async list(desktopId: DesktopId): Promise<MemoryImage[]> {
    const names = (await readdir(join(this.#folder, desktopId)).catch(unlessMissing)) ?? []
    const found = await Promise.all(
      names.filter((name) => name.endsWith('.json')).map((name) => this.#read(desktopId, name)),
    )
    return found.filter((image) => image !== undefined).sort(newestFirst)
  }

  async #read(desktopId: DesktopId, name: string): Promise<MemoryImage | undefined> {
    const manifestPath = join(this.#folder, desktopId, name)
    const manifest = await readManifest(manifestPath)
    if (manifest?.installationId !== this.#installationId) return undefined
    const file = name.replace(/json$/, 'save')
    const path = join(this.#folder, desktopId, file)
    return { file, path, manifestPath, manifest, ...(await readHead(path)) }
  }

  /** Records on disk that an image is about to be written, and where. */
  async intend(fence: Fence, by: SavedBy, imageVersion: string | null): Promise<MemoryImage> {
    await privateFolder(join(this.#folder, fence.desktopId))
    await syncPath(this.#folder)
    const { desktopId, generation, turn, operationId } = fence
    const stem = join(this.#folder, desktopId, `${generation}-${turn}-${operationId}`)
    const of = { installationId: this.#installationId, desktopId, generation, turn, operationId, imageVersion }
    const manifest: Manifest = { state: 'intended', ...of, ...by, bytes: null, sha256: null }
    await writeManifest(`${stem}.json`, manifest)
    const path = `${stem}.save`
    return {
      file: `${generation}-${turn}-${operationId}.save`,
      path,
      manifestPath: `${stem}.json`,
      manifest,
      bytes: null,
      magic: '',
    }
  }

  /** The file is whole: it is synced first, then the manifest says so. */
  async complete(image: MemoryImage): Promise<MemoryImage> {
    await syncPath(image.path)
    const head = await readHead(image.path)
    return this.#rewrite({ ...image, ...head }, { state: 'complete', bytes: head.bytes })
  }

  /** From now on it is never restored again. */
  spend(image: MemoryImage): Promise<MemoryImage> {
    return this.#rewrite(image, { state: 'spent' })
  }

  async #rewrite(image: MemoryImage, change: Partial<Manifest>): Promise<MemoryImage> {
    const manifest = { ...image.manifest, ...change }
    await writeManifest(image.manifestPath, manifest)
    return { ...image, manifest }
  }

  /** Removes the file first: a manifest without a file is no image, but a file without a manifest would stay for good. */
  async remove(image: MemoryImage): Promise<void> {
    await rm(image.path, { force: true })
    await rm(image.manifestPath, { force: true })
    await syncPath(join(this.#folder, image.manifest.desktopId)).catch(unlessMissing)
  }

  async removeAll(desktopId: DesktopId): Promise<void> {
    await rm(join(this.#folder, desktopId), { recursive: true, force: true })
    await syncPath(this.#folder).catch(unlessMissing)
  }

  /** Throws `memory_image_damaged` where the file is not exactly what was saved, as far as size and header tell. */
  verify(image: MemoryImage): void {
    const { bytes: saved } = image.manifest
    if (image.bytes === null) refuseMissing()
    if (image.bytes !== saved) refuseDamaged(`it has ${image.bytes} bytes where ${saved} were saved`)
    if (image.magic !== wholeMagic) refuseDamaged('its header is not that of a whole image')
  }

  /** Compares the digest, where there is one. It may run beside the restore, which must not resume before it. */
  async verifyDigest(image: MemoryImage, signal: AbortSignal): Promise<void> {
    if (!image.manifest.sha256) return
    if ((await digest(image.path, signal)) !== image.manifest.sha256) refuseDamaged('its digest differs')
  }

  /** Computes and records the digest, unless the image was removed or spent meanwhile. */
  async recordDigest(desktopId: DesktopId, file: string, signal: AbortSignal): Promise<void> {
    const isWanted = (image: MemoryImage) => image.file === file && image.manifest.state === 'complete'
    const image = (await this.list(desktopId)).find(isWanted)
    if (!image || image.manifest.sha256) return
    const sha256 = await digest(image.path, signal)
    signal.throwIfAborted()
    const now = (await this.list(desktopId)).find(isWanted)
    if (now) await this.#rewrite(now, { sha256 })
  }

  /** Runs `save` with `memoryMiB` of disk reserved for it; `host_disk_full` where there is not that much free. */
  async withSpaceFor<T>(memoryMiB: number, save: () => Promise<T>): Promise<T> {
    const need = memoryMiB * mib
    await privateFolder(this.#folder)
    const { bavail, bsize } = await statfs(this.#folder)
    const free = bavail * bsize - this.#reservedBytes
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

async function readHead(path: string): Promise<{ bytes: number | null; magic: string }> {
  const info = await stat(path).catch(unlessMissing)
  if (!info) return { bytes: null, magic: '' }
  const file = await open(path, 'r')
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(headerBytes), 0, headerBytes, 0)
    return { bytes: info.size, magic: bytesRead < headerBytes ? '' : buffer.toString('latin1', 0, wholeMagic.length) }
  } finally {
    await file.close()
  }
}

async function digest(path: string, signal: AbortSignal): Promise<string> {
  const hash = createHash('sha256')
  for await (const chunk of createReadStream(path, { highWaterMark: mib, signal })) hash.update(chunk)
  return hash.digest('hex')
}
