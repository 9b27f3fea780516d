// The paths of the sockets of screens and guest ports: in a configured folder with a short name, or chosen by libvirt.
import { unlink } from 'node:fs/promises'
import { join } from 'node:path'
import type { DesktopId } from '@dormouse/contract'
import { privateFolder, unlessMissing } from '../../mechanics/durable-file.ts'

const kinds = ['vnc', 'ssh', 'wake'] as const

export class Sockets {
  readonly #folder: string | undefined

  constructor(folder: string | undefined) {
    this.#folder = folder
  }

  /** The socket's path, in a folder that exists; null if libvirt chooses. */
  async ready(desktopId: DesktopId, kind: (typeof kinds)[number]): Promise<string | null> {
    if (!this.#folder) return null
    privateFolder(this.#folder, 0o711)
    return join(this.#folder, `${desktopId}.${kind}`)
  }

  async remove(desktopId: DesktopId): Promise<void> {
    if (!this.#folder) return
    for (const kind of kinds) {
      // QEMU's user may have put anything there. A folder stays: nothing is removed by name below a name of another user.
      await unlink(join(this.#folder, `${desktopId}.${kind}`)).catch((error: NodeJS.ErrnoException) => {
        if (error.code !== 'EISDIR') unlessMissing(error)
      })
    }
  }
}
