// Looks for what goes wrong in guests: processes that their kernels kill for want of memory, and disks that are full.
import type { DesktopId } from '@dormouse/contract'
import type { Driver } from '../driver/driver.ts'
import type { FullDisks } from './full-disks.ts'
import type { Troubles } from './troubles.ts'
import type { Watch } from './watch.ts'

interface GuestTroublesDeps {
  driver: Pick<Driver, 'printed'>
  watch: Pick<Watch, 'running' | 'outOfSpace'>
  fullDisks: Pick<FullDisks, 'look'>
  troubles: Pick<Troubles, 'note'>
}

/** How the kernel says it on the console, for the whole guest or for one group of its processes. */
const killed = /\bKilled process \d+ \((.{1,64}?)\),? total-vm:/g
/** A guest may print such lines without end. */
const mostAtOnce = 100

export class GuestTroubles {
  readonly #deps: GuestTroublesDeps
  #stopped: ReadonlySet<DesktopId> = new Set()

  constructor(deps: GuestTroublesDeps) {
    this.#deps = deps
  }

  /** To be called every few seconds. */
  async look(): Promise<void> {
    const { driver, watch, fullDisks, troubles } = this.#deps
    const stopped = new Set(watch.outOfSpace())
    for (const desktopId of stopped)
      if (!this.#stopped.has(desktopId)) troubles.note(desktopId, 'disk_full', { where: 'host' })
    this.#stopped = stopped
    const printed = await driver.printed(watch.running().map(({ desktopId }) => desktopId))
    for (const [desktopId, text] of printed)
      for (const process of killedIn(text)) troubles.note(desktopId, 'out_of_memory', { process })
    await fullDisks.look()
  }
}

/** The names of the processes that were killed for want of memory, as the kernel's lines have them. */
export const killedIn = (text: string): string[] =>
  [...text.matchAll(killed)].slice(-mostAtOnce).map(([, process]) => process!)
