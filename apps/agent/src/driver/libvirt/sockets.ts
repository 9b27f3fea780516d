// Where the sockets of screens and of guests' ports lie: in a folder of ours with a short name, or where libvirt likes.
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { DesktopId } from '@dormouse/contract'
import { privateFolder } from '../../mechanics/durable-file.ts'

const kinds = ['vnc', 'ssh'] as const

export class Sockets {
  readonly #folder: string | undefined

  constructor(folder: string | undefined) {
    this.#folder = folder
  }

  /** Where one listens, in a folder that is there; null where libvirt chooses. */
  async ready(desktopId: DesktopId, kind: (typeof kinds)[number]): Promise<string | null> {
    if (!this.#folder) return null
    await privateFolder(this.#folder, 0o711)
    return join(this.#folder, `${desktopId}.${kind}`)
  }

  async remove(desktopId: DesktopId): Promise<void> {
    if (!this.#folder) return
    for (const kind of kinds) await rm(join(this.#folder, `${desktopId}.${kind}`), { force: true })
  }
}
