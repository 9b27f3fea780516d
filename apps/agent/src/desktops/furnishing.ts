// Gives desktops that began with a template what no template has: a network, and the file system on all of a larger disk. They are
// awake already: it takes libvirt up to seconds to filter a network port. What was cut off is done again.
import type { DesktopId } from '@dormouse/contract'
import type { Failpoints, Log } from '@dormouse/process'
import type { Driver } from '../driver/driver.ts'
import type { Guests } from '../driver/guest-transport.ts'
import { growFileSystem, requestAddress } from '../guest/catch-up.ts'
import type { Journal } from './journal.ts'
import type { Entry } from './journal-entry.ts'
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

/** Grows the disk of a running desktop. Its guest makes its file system larger meanwhile. */
export async function growDisk(deps: GrowDeps, { fence, entry }: Turn): Promise<void> {
  const { desktopId, generation } = fence
  const { spec, furnished } = entry()
  if (furnished || !spec || !(await deps.driver.templates.growDisk(desktopId, spec))) return
  void growFileSystem(deps, desktopId, generation)
}

export class Furnishing {
  readonly #deps: FurnishDeps
  readonly #underWay = new Set<DesktopId>()

  constructor(deps: FurnishDeps) {
    this.#deps = deps
  }

  /** To be called every few seconds: what an agent before this one has left, and what has failed. Waits for no guest. */
  async check(): Promise<void> {
    const due = this.#deps.journal.all().filter(({ furnished, running }) => running && !furnished)
    for (const { desktopId } of due) void this.furnish(desktopId)
  }

  /** To be called when a wake or a move has ended. Does nothing if there is nothing to do. Never throws. */
  async furnish(desktopId: DesktopId): Promise<void> {
    const { journal, log } = this.#deps
    const entry = journal.read(desktopId)
    if (!entry?.running || entry.furnished || this.#underWay.has(desktopId)) return
    this.#underWay.add(desktopId)
    try {
      await this.#furnish(entry)
    } catch (err) {
      log.warn({ err, desktopId }, 'a new desktop has no network yet; retrying')
    } finally {
      this.#underWay.delete(desktopId)
    }
  }

  /** No command waits until the guest has requested its address. If a command comes meanwhile, the rest is done later. */
  async #furnish(entry: Entry): Promise<void> {
    const { turns, failpoints } = this.#deps
    const { desktopId, generation } = entry
    const port = await turns.whileIdle(desktopId, entry, (turn) => this.#connect(turn))
    if (!port) return
    await failpoints.hit('furnish.after-plug')
    if (port.address) await requestAddress(this.#deps, { desktopId, generation }, port.address)
    await failpoints.hit('furnish.before-note')
    // Not synced: if it is lost, all of it is done again, and changes nothing.
    await turns.whileIdle(desktopId, entry, (turn) => turn.note({ furnished: true }, { unsynced: true }))
  }

  async #connect(turn: Turn) {
    const { driver, memory, failpoints } = this.#deps
    const { desktopId } = turn.fence
    // A wake does not wait for that either.
    await memory.removeCopy(desktopId)
    await growDisk(this.#deps, turn)
    await failpoints.hit('furnish.before-plug')
    const address = await driver.templates.plug(desktopId)
    await driver.setShares(desktopId, turn.entry().spec?.shares)
    return { address }
  }
}
