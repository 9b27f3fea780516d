// The log files of the guests' serial consoles, one per desktop, each limited in length.
import { open, readdir, rm, stat, truncate } from 'node:fs/promises'
import { join } from 'node:path'
import type { DesktopId } from '@dormouse/contract'
import { eachDone } from '@dormouse/process'
import { privateFolder, unlessMissing } from '../../mechanics/durable-file.ts'

const maxBytes = 1024 * 1024

export class Consoles {
  readonly #folder: string

  constructor(folder: string) {
    this.#folder = folder
  }

  /** Makes the desktop's file, which must exist before QEMU's user writes to it; returns its path. */
  async ready(desktopId: DesktopId): Promise<string> {
    privateFolder(this.#folder, 0o711)
    const path = this.#path(desktopId)
    await (await open(path, 'a', 0o600)).close()
    return path
  }

  async remove(desktopId: DesktopId): Promise<void> {
    await rm(this.#path(desktopId), { force: true })
  }

  /** Empties each file above 1 MiB. QEMU appends, so it continues at the file's start. Throws what failed, after all others. */
  async truncateLong(): Promise<void> {
    await eachDone((await readdir(this.#folder).catch(unlessMissing)) ?? [], async (name) => {
      const path = join(this.#folder, name)
      const size = (await stat(path).catch(unlessMissing))?.size ?? 0
      if (size > maxBytes) await truncate(path, 0)
    })
  }

  #path(desktopId: DesktopId): string {
    return join(this.#folder, `${desktopId}.log`)
  }
}
