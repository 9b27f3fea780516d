// The log files of the guests' serial consoles, one per desktop, each limited in length.
import { open, readdir, rm, stat, truncate } from 'node:fs/promises'
import { join } from 'node:path'
import type { DesktopId } from '@dormouse/contract'
import { eachDone } from '@dormouse/process'
import { privateFolder, unlessMissing } from '../../mechanics/durable-file.ts'

const maxBytes = 1024 * 1024
/** Of more output than this, the end alone is read. */
const readBytes = 64 * 1024

export class Consoles {
  readonly #folder: string
  /** Up to where each was read. */
  readonly #read = new Map<DesktopId, number>()

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
    this.#read.delete(desktopId)
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

  /** What was written to each since the call before, in whole lines; nothing at the first. */
  async printed(desktopIds: readonly DesktopId[]): Promise<Map<DesktopId, string>> {
    const read = async (desktopId: DesktopId) => [desktopId, await this.#printed(desktopId)] as const
    return new Map(await Promise.all(desktopIds.map(read)))
  }

  async #printed(desktopId: DesktopId): Promise<string> {
    const path = this.#path(desktopId)
    const size = (await stat(path).catch(unlessMissing))?.size ?? 0
    const before = this.#read.get(desktopId) ?? size
    // It was emptied meanwhile.
    const start = Math.max(before > size ? 0 : before, size - readBytes)
    this.#read.set(desktopId, start)
    if (start === size) return ''
    await using file = await open(path, 'r')
    const bytes = Buffer.alloc(size - start)
    const { bytesRead } = await file.read(bytes, 0, bytes.length, start)
    const whole = bytes.subarray(0, bytesRead).lastIndexOf('\n') + 1
    this.#read.set(desktopId, start + whole)
    return bytes.toString('utf8', 0, whole)
  }

  #path(desktopId: DesktopId): string {
    return join(this.#folder, `${desktopId}.log`)
  }
}
