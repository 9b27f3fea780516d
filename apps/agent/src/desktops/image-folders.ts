// The contents of the folders of saved memories. Files are small and read on this thread: a turn of the thread pool takes ten
// times as long. Each command looks several times, so a file is read again only when it has changed.
import { closeSync, openSync, readdirSync, readSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { DesktopId } from '@dormouse/contract'
import { headerBytes, wholeMagic } from '../driver/saved-file.ts'
import { unlessMissing } from '../mechanics/durable-file.ts'
import { ReadIfChanged } from '../mechanics/read-if-changed.ts'
import { type Manifest, readManifest } from './manifests.ts'

export interface ImageHead {
  /** Null if there is no file. */
  bytes: number | null
  magic: string
}

export interface FoundImage extends ImageHead {
  /** The name of its two files, without their ends. */
  stem: string
  manifest: Manifest
}

interface SeenImage {
  manifest: ReadIfChanged<Manifest | undefined>
  head: ReadIfChanged<ImageHead>
}

interface SeenFolder {
  stems: ReadIfChanged<string[]>
  images: Map<string, SeenImage>
}

export class ImageFolders {
  readonly #folder: string
  readonly #seen = new Map<DesktopId, SeenFolder>()

  constructor(folder: string) {
    this.#folder = folder
  }

  /** Every image that has a readable manifest. */
  list(desktopId: DesktopId): FoundImage[] {
    const path = join(this.#folder, desktopId)
    const { stems, images } = this.#seen.get(desktopId) ?? { stems: new ReadIfChanged(stemsIn), images: new Map() }
    const present = stems.at(path)
    if (!present) {
      this.#seen.delete(desktopId)
      return []
    }
    this.#seen.set(desktopId, { stems, images })
    for (const stem of images.keys()) if (!present.includes(stem)) images.delete(stem)
    return present.map((stem) => look(images, path, stem)).filter((image) => image !== undefined)
  }

  /** To be called when this process has added or removed a file: that may be too soon after the last look to be noticed. */
  namesChanged(desktopId: DesktopId): void {
    this.#seen.get(desktopId)?.stems.forget()
  }

  /** To be called when this process has changed a manifest. */
  manifestChanged(desktopId: DesktopId, stem: string): void {
    this.#seen.get(desktopId)?.images.get(stem)?.manifest.forget()
  }
}

function look(images: Map<string, SeenImage>, folder: string, stem: string): FoundImage | undefined {
  const seen = images.get(stem) ?? { manifest: new ReadIfChanged(readManifest), head: new ReadIfChanged(readHead) }
  images.set(stem, seen)
  const manifest = seen.manifest.at(join(folder, `${stem}.json`))
  if (!manifest) return undefined
  const path = join(folder, `${stem}.save`)
  // A save in progress writes its file: it is read each time.
  const head = manifest.state === 'intended' ? readHead(path) : (seen.head.at(path) ?? noFile)
  return { stem, manifest, ...head }
}

function stemsIn(folder: string): string[] {
  const names = namesIn(folder).filter((name) => name.endsWith('.json'))
  return names.map((name) => name.slice(0, -'.json'.length))
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder)
  } catch (error) {
    unlessMissing(error as NodeJS.ErrnoException)
    return []
  }
}

const noFile: ImageHead = { bytes: null, magic: '' }

export function readHead(path: string): ImageHead {
  const info = statSync(path, { throwIfNoEntry: false })
  if (!info) return noFile
  const file = openSync(path, 'r')
  try {
    const head = Buffer.alloc(headerBytes)
    const isShort = readSync(file, head, 0, headerBytes, 0) < headerBytes
    return { bytes: info.size, magic: isShort ? '' : head.toString('latin1', 0, wholeMagic.length) }
  } finally {
    closeSync(file)
  }
}
