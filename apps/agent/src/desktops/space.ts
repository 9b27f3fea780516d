// Resumes what a full disk has stopped: first the journal's reserve is made whole again, then the guests that the hypervisor paused
// for want of space are resumed. Until then the host reports a problem and takes no desktop.
import type { DesktopId } from '@dormouse/contract'
import { eachApart, type Log } from '@dormouse/process'
import type { Driver } from '../driver/driver.ts'
import type { Journal } from './journal.ts'
import type { Turns } from './turns.ts'
import type { Watch } from './watch.ts'

export interface SpaceDeps {
  driver: Pick<Driver, 'freeDiskBytes' | 'domain' | 'resume'>
  journal: Journal
  turns: Turns
  watch: Watch
  log: Log
}

/** With less, a resumed guest would be paused again at once. */
const minFreeBytes = 64 * 1024 * 1024

const resumedAtOnce = 4

export class Space {
  readonly #deps: SpaceDeps
  #checked = false

  constructor(deps: SpaceDeps) {
    this.#deps = deps
  }

  /** Why the host can take no desktop now, and what to do; null if its disk has space. */
  get problem(): string | null {
    const paused = this.#deps.watch.outOfSpace().length
    const remedy = 'destroy desktops, or give the host a larger disk'
    if (paused > 0) return `the disk is full, and ${paused} of its desktops are paused until there is space; ${remedy}`
    const { failure, hasReserve } = this.#deps.journal
    if (failure) return failure.message
    return hasReserve ? null : `the disk of the state folder is full; ${remedy}`
  }

  /** To be called every few seconds. */
  async check(): Promise<void> {
    const { driver, journal, watch, log } = this.#deps
    const whole = await journal.refillReserve()
    // An agent that has just started knows of no paused desktop yet.
    if (!this.#checked) await watch.checkAll()
    this.#checked = true
    const paused = watch.outOfSpace()
    if (!whole || paused.length === 0 || (await driver.freeDiskBytes()) < minFreeBytes) return
    const failed = (err: unknown, desktopId: DesktopId) =>
      log.warn({ err, desktopId }, 'a desktop that was paused for lack of space could not be resumed; retrying')
    await eachApart(paused, { atOnce: resumedAtOnce, failed }, (desktopId) => this.#resume(desktopId))
  }

  /** Unless a command is in progress for it, or it is not meant to run. */
  async #resume(desktopId: DesktopId): Promise<void> {
    const { driver, journal, turns, log } = this.#deps
    const entry = journal.read(desktopId)
    if (!entry?.running) return
    await turns.whileIdle(desktopId, entry, async () => {
      if ((await driver.domain(desktopId))?.pause !== 'space') return
      log.info({ desktopId }, 'the host’s disk has space again; a paused desktop is resumed')
      await driver.resume(desktopId)
    })
  }
}
