// The desktops' disks: overlays on images, in this installation's storage pool. libvirt makes and deletes them; their files
// are listed without it.
import { readdir, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { type DesktopId, type DesktopSpec, isId, Refusal, refuse } from '@dormouse/contract'
import type { Pool } from '@dormouse/node-libvirt'
import { foldersOf } from '../../images/eviction.ts'
import { type Image, imageOfDisk, type Readiness } from '../../images/images.ts'
import type { ImageStore } from '../../images/store.ts'
import { syncPath, unlessMissing } from '../../mechanics/durable-file.ts'
import type { Arrival } from '../moves.ts'
import { overlayXml } from './domain-xml.ts'
import { orRefuse } from './failures.ts'
import { backingFileIn, enlarge, rebase, requireOverlay, virtualBytesIn } from './qcow2.ts'

const gib = 1024 ** 3
const suffix = '.qcow2'
const arriving = '.arriving'

export const virtualBytesOf = ({ diskGiB }: DesktopSpec, image: Image): number =>
  Math.max(diskGiB * gib, image.virtualBytes)

export class LibvirtDisks {
  readonly #folder: string
  readonly #images: ImageStore
  readonly #pool: () => Promise<Pool>

  constructor(folder: string, images: ImageStore, pool: () => Promise<Pool>) {
    this.#folder = folder
    this.#images = images
    this.#pool = pool
  }

  path(desktopId: DesktopId): string {
    return join(this.#folder, `${desktopId}${suffix}`)
  }

  async list(): Promise<DesktopId[]> {
    const names = (await readdir(this.#folder).catch(unlessMissing)) ?? []
    return names
      .filter((name) => name.endsWith(suffix))
      .map((name) => name.slice(0, -suffix.length))
      .filter(isId)
  }

  async has(desktopId: DesktopId): Promise<boolean> {
    return Boolean(await stat(this.path(desktopId)).catch(unlessMissing))
  }

  make(desktopId: DesktopId, spec: DesktopSpec, manifestDigest?: string): Promise<void> {
    return this.#images.using(async () => {
      const { imageVersion } = spec
      const image = await this.#images.find(imageVersion, manifestDigest)
      if (!image) return refuse('image_unavailable', `the desktop’s host does not have the image "${imageVersion}"`)
      await this.#create(desktopId, spec, image)
      await this.#images.noteUse(image)
    })
  }

  /**
   * The folders of the images that disks stand on. Throws if a disk cannot be read. A disk that is still arriving stands on
   * none: its bytes are another host's, and may stay incomplete. The journal protects the image that it will stand on.
   */
  async imageFolders(): Promise<Set<string>> {
    const names = (await readdir(this.#folder).catch(unlessMissing)) ?? []
    const backing: string[] = []
    for (const name of names) {
      if (!name.endsWith(suffix)) continue
      const file = await backingFileIn(join(this.#folder, name)).catch(unlessMissing)
      if (file) backing.push(file)
    }
    return foldersOf(backing)
  }

  /** A new disk for a desktop that comes from another host, on this host's copy of its image. */
  makeAgain(desktopId: DesktopId, spec: DesktopSpec, imageDigest: string): Promise<void> {
    return this.#images.using(async () => {
      const image = await this.imageOfDigest(imageDigest)
      await this.remove(desktopId)
      await this.#create(desktopId, spec, image)
    })
  }

  /** Where a disk that is copied to this host is written until it is whole. */
  arrivingPath(desktopId: DesktopId): string {
    return join(this.#folder, `${desktopId}${arriving}`)
  }

  /** The disk that was copied to this host is checked, put on this host's image, synced and in place. */
  async adopt(arrival: Arrival): Promise<void> {
    if (!(await this.has(arrival.mark.desktopId))) await this.replace(arrival)
  }

  /** The same, whether the desktop has a disk or not. */
  async replace({ mark, spec, imageDigest, furnished }: Arrival): Promise<void> {
    const { desktopId } = mark
    const path = this.arrivingPath(desktopId)
    await this.#images.using(async () => {
      const image = await this.imageOfDigest(imageDigest)
      const most = virtualBytesOf(spec, image)
      await requireOverlay(path, { least: furnished ? most : image.virtualBytes, most })
      await rebase(path, image.disk)
      await syncPath(path)
      // Only under its name does it protect its image.
      await rename(path, this.path(desktopId))
      await this.syncFolder()
    })
    await (await this.#pool()).refresh()
  }

  async imageOfDigest(digest: string): Promise<Image> {
    return (
      (await this.#images.findByDigest(digest)) ??
      refuse('image_unavailable', 'the host does not have the image of the desktop’s disk')
    )
  }

  async #create(desktopId: DesktopId, spec: DesktopSpec, image: Image): Promise<void> {
    const pool = await this.#pool()
    const xml = overlayXml(`${desktopId}${suffix}`, virtualBytesOf(spec, image), image.disk)
    await orRefuse('the disk could not be made', pool.volumes.create(xml))
    await syncPath(this.path(desktopId))
    await this.syncFolder()
  }

  async gibOf(desktopId: DesktopId): Promise<number> {
    return Math.floor((await virtualBytesIn(this.path(desktopId))) / gib)
  }

  /** Nothing runs on it. */
  async grow(desktopId: DesktopId, diskGiB: number): Promise<void> {
    const path = this.path(desktopId)
    if ((await virtualBytesIn(path)) >= diskGiB * gib) return
    await enlarge(path, diskGiB * gib)
    await syncPath(path)
  }

  /** Which disks there are is on the host's disk when this returns. */
  syncFolder(): Promise<void> {
    return syncPath(this.#folder)
  }

  async remove(desktopId: DesktopId): Promise<void> {
    const volume = await (await this.#pool()).volumes.lookup(`${desktopId}${suffix}`)
    if (volume) await orRefuse('the disk could not be removed', volume.delete())
    // The file may be unknown to the pool.
    await rm(this.path(desktopId), { force: true })
    await rm(this.arrivingPath(desktopId), { force: true })
  }

  /** What its process has written is on the host's disk when this returns. */
  sync(desktopId: DesktopId): Promise<void> {
    return syncPath(this.path(desktopId))
  }

  /** When the image counts a guest as ready; undefined if the image no longer exists. */
  async readiness(desktopId: DesktopId): Promise<Readiness | undefined> {
    return (await this.#imageOf(desktopId))?.ready
  }

  /** The image that the disk was made of, even if its name leads to a newer one by now. */
  async imageOf(desktopId: DesktopId): Promise<Image> {
    return (
      (await this.#imageOf(desktopId)) ??
      refuse('image_unavailable', 'the image of the desktop’s disk is no longer on its host')
    )
  }

  async #imageOf(desktopId: DesktopId): Promise<Image | undefined> {
    const backing = await backingFileIn(this.path(desktopId))
      .catch(unlessMissing)
      .catch((cause: unknown) => {
        throw Object.assign(new Refusal('hypervisor_failed', 'the disk could not be read'), { cause })
      })
    return backing ? imageOfDisk(backing) : undefined
  }
}
