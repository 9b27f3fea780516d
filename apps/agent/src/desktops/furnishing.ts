// Gives desktops that began with a template what no template has: a network, and the file system on all of a larger disk. They are
// awake already: it takes libvirt up to seconds to filter a network port. What was cut off is done again.
import type { DesktopId } from '@dormouse/contract'
import type { Failpoints, Log } from '@dormouse/process'
import type { Driver } from '../driver/driver.ts'
import { growFileSystem } from '../guest/grow-disk.ts'
import type { Guests } from '../guest/guests.ts'
import { requestNewAddress } from '../guest/new-address.ts'
import type { Journal } from './journal.ts'
import type { MemoryImages } from './memory-images.ts'
import type { Turn, Turns } from './turns.ts'

interface GrowDeps {
  driver: Driver
  guests: Guests
  log: Log
}

interface FurnishDeps extends GrowDeps {
  journal: Journal
  memory: Pick<MemoryImages, 'removeCopy'>
  turns: Turns
  failpoints: Failpoints
}

/** Of a running desktop. Its guest makes its file system larger meanwhile. */
export async function growDisk(deps: GrowDeps, { fence, entry }: Turn): Promise<void> {
  const { desktopId, generation } = fence
  const { spec, furnished } = entry()
  if (furnished || !spec || !(await deps.driver.templates.growDisk(desktopId, spec))) return
  void growFileSystem(deps, desktopId, generation)
}

export class Furnishing {
  readonly #deps: FurnishDeps

  constructor(deps: FurnishDeps) {
    this.#deps = deps
  }

  /** To be called every few seconds: what an agent before this one has left, and what has failed. */
  async check(): Promise<void> {
    const due = this.#deps.journal.all().filter(({ furnished, running }) => running && !furnished)
    await Promise.all(due.map(({ desktopId }) => this.furnish(desktopId)))
  }

  /** To be called when a wake has ended. Does nothing where there is nothing to do. Never throws. */
  async furnish(desktopId: DesktopId): Promise<void> {
    const { journal, turns, log } = this.#deps
    const entry = journal.read(desktopId)
    if (!entry?.running || entry.furnished) return
    await turns
      .whileIdle(desktopId, entry, (turn) => this.#furnish(turn))
      .catch((err: unknown) => log.warn({ err, desktopId }, 'a new desktop has no network yet; retrying'))
  }

  async #furnish(turn: Turn): Promise<void> {
    const { driver, memory, failpoints } = this.#deps
    const { desktopId, generation } = turn.fence
    // A wake does not wait for that either.
    await memory.removeCopy(desktopId)
    await growDisk(this.#deps, turn)
    await driver.templates.plug(desktopId)
    await failpoints.hit('furnish.before-note')
    // Not synced: where it is lost, there is nothing left to do the next time.
    await turn.note({ furnished: true }, { unsynced: true })
    void requestNewAddress(this.#deps, desktopId, generation)
  }
}
