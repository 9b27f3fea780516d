// The paths of the sockets of screens and guest ports: in a configured folder with a short name, or chosen by libvirt.
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { DesktopId } from '@dormouse/contract'
import { privateFolder } from '../../mechanics/durable-file.ts'

const kinds = ['vnc', 'ssh', 'wake'] as const

export class Sockets {
  readonly #folder: string | undefined

  constructor(folder: string | undefined) {
    this.#folder = folder
  }

  /** The socket's path, in a folder that exists; null where libvirt chooses. */
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
