// What a full disk has stopped goes on when there is room: first the reserve is made again, then guests that the
// hypervisor has paused for want of space are resumed. Meanwhile the host ails, and takes no desktop.
import type { DesktopId } from '@dormouse/contract'
import type { Ground } from './ground.ts'
import type { Turns } from './turns.ts'
import type { Watch } from './watch.ts'

/** With less, a guest would stand still again at once. */
const leastFreeBytes = 64 * 1024 * 1024

export class Space {
  readonly #on: Ground
  readonly #turns: Turns
  readonly #watch: Watch
  #looked = false

  constructor(on: Ground, turns: Turns, watch: Watch) {
    this.#on = on
    this.#turns = turns
    this.#watch = watch
  }

  /** Why the host can take no desktop now, and what to do; null where its disk has room. */
  get ailment(): string | null {
    const paused = this.#watch.outOfSpace().length
    const remedy = 'destroy desktops, or give the host a larger disk'
    if (paused > 0) return `the disk is full, and ${paused} of its desktops are paused until there is room; ${remedy}`
    return this.#on.journal.reserve.isWhole ? null : `the disk of the state folder is full; ${remedy}`
  }

  /** To be done every few seconds. */
  async tend(): Promise<void> {
    const whole = await this.#on.journal.reserve.refill()
    // An agent that has just started knows of no pause yet.
    if (!this.#looked) await this.#watch.lookAround()
    this.#looked = true
    const paused = this.#watch.outOfSpace()
    if (!whole || paused.length === 0 || (await this.#on.driver.freeDiskBytes()) < leastFreeBytes) return
    for (const desktopId of paused) await this.#goOn(desktopId)
  }

  /** Unless a command is at work on it, or it is not to run at all. */
  async #goOn(desktopId: DesktopId): Promise<void> {
    const { driver, journal, log } = this.#on
    const entry = journal.read(desktopId)
    if (!entry?.running) return
    await this.#turns.between(desktopId, entry, async () => {
      if (!(await driver.domain(desktopId))?.outOfSpace) return
      log.info({ desktopId }, 'the host’s disk has room again; a paused desktop goes on')
      await driver.resume(desktopId)
    })
  }
}
