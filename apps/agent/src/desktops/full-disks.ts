// Which guests have full file systems. A guest is asked only when it has written so much since the last time that one could be
// full by now, so one that rests costs nothing.
import type { DesktopId } from '@dormouse/contract'
import { eachApart, type Log } from '@dormouse/process'
import type { Driver, GuestUsage } from '../driver/driver.ts'
import type { FileSystem, Guests } from '../driver/guest-transport.ts'
import type { Troubles } from './troubles.ts'

interface FullDisksDeps {
  driver: Pick<Driver, 'frozen'>
  guests: Pick<Guests, 'fileSystems'>
  troubles: Pick<Troubles, 'note'>
  log: Log
  /** Monotonic. */
  now?: () => number
}

interface Known {
  /** What it had written when it was asked. */
  writtenBytes: number
  askedAt: number
  /** The least that one of its file systems had left then. */
  freeBytes: number
  full: ReadonlySet<string>
}

const mib = 1024 * 1024
const leastWritten = mib
const soonestMs = 20_000
/** Space can also be taken without writing it. */
const latestMs = 60_000
const atOnce = 2

export class FullDisks {
  readonly #deps: FullDisksDeps
  readonly #known = new Map<DesktopId, Known>()
  readonly #due = new Map<DesktopId, number>()

  constructor(deps: FullDisksDeps) {
    this.#deps = deps
  }

  get #now(): number {
    return this.#deps.now?.() ?? performance.now()
  }

  /** What the running desktops have used by now; for each, what it has written may be unknown this time. */
  used(used: ReadonlyMap<DesktopId, GuestUsage>): void {
    for (const desktopId of this.#known.keys()) if (!used.has(desktopId)) this.#forget(desktopId)
    for (const [desktopId, { writtenBytes }] of used) {
      if (writtenBytes === undefined) continue
      const known = this.#known.get(desktopId)
      if (!known || known.writtenBytes > writtenBytes)
        this.#known.set(desktopId, { askedAt: -Infinity, freeBytes: 0, full: new Set(), ...known, writtenBytes })
      else if (this.#isDue(known, writtenBytes - known.writtenBytes)) this.#due.set(desktopId, writtenBytes)
    }
  }

  #forget(desktopId: DesktopId): void {
    this.#known.delete(desktopId)
    this.#due.delete(desktopId)
  }

  #isDue({ askedAt, freeBytes }: Known, written: number): boolean {
    const passedMs = this.#now - askedAt
    if (written >= Math.max(leastWritten, freeBytes / 2)) return passedMs >= soonestMs
    return written > 0 && passedMs >= latestMs
  }

  /** Asks those of them that are due. */
  async look(): Promise<void> {
    const { driver, log } = this.#deps
    const due = [...this.#due].filter(([desktopId]) => !driver.frozen(desktopId))
    this.#due.clear()
    const failed = (err: unknown, [desktopId]: [DesktopId, number]) =>
      log.debug({ err, desktopId }, 'a guest did not say how full its disks are')
    await eachApart(due, { atOnce, failed }, ([desktopId, writtenBytes]) => this.#ask(desktopId, writtenBytes))
  }

  async #ask(desktopId: DesktopId, writtenBytes: number): Promise<void> {
    const { guests, troubles } = this.#deps
    const before = this.#known.get(desktopId)
    if (!before) return
    const asked = { ...before, askedAt: this.#now, writtenBytes }
    // If it does not answer, it is asked again much later.
    this.#known.set(desktopId, { ...asked, freeBytes: Infinity })
    const found = await guests.fileSystems(desktopId)
    const full = found.filter((one) => isFull(one, before.full.has(one.path))).map(({ path }) => path)
    for (const path of full) if (!before.full.has(path)) troubles.note(desktopId, 'disk_full', { where: 'guest', path })
    const open = found.filter(({ path }) => !full.includes(path)).map(({ freeBytes }) => freeBytes)
    this.#known.set(desktopId, { ...asked, freeBytes: Math.min(...open), full: new Set(full) })
  }
}

/** One that was full stays so until it has clearly more space. */
function isFull({ totalBytes, freeBytes }: FileSystem, wasFull: boolean): boolean {
  const little = Math.min(16 * mib, totalBytes / 100)
  return freeBytes <= (wasFull ? 4 * little : little)
}
