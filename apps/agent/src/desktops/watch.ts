// Notices what happens to desktops without a command: a guest powered off, a process died, the hypervisor was away.
// It reports; it mends two things alone: what stands up again after its
// destruction is ended, and a guest whose save was cut off goes on.
import type { DesktopId, Observation } from '@dormouse/contract'
import type { DriverEvent } from '../driver/driver.ts'
import { KeyedLock } from '../mechanics/locks.ts'
import { removeAll } from './destroy.ts'
import type { Ground } from './ground.ts'
import { asSeen } from './inventory.ts'
import { look, removeVoid, type Situation } from './situation.ts'
import type { Turns } from './turns.ts'

export class Watch {
  readonly #on: Ground
  readonly #turns: Turns
  /** Reasons of events that came while a command was at work; looked at when it has ended. */
  readonly #waiting = new Map<DesktopId, string | null>()
  /** Running before a gap; what is not afterwards has changed unseen. */
  readonly #running = new Map<DesktopId, number>()
  readonly #outOfSpace = new Set<DesktopId>()
  readonly #looks = new KeyedLock()
  #around: Promise<void> | undefined

  constructor(on: Ground, turns: Turns) {
    this.#on = on
    this.#turns = turns
    on.driver.listen((event) => this.#heard(event))
  }

  /** Proof of life, as last seen: each running desktop with its generation. */
  running(): { desktopId: DesktopId; generation: number }[] {
    return [...this.#running].map(([desktopId, generation]) => ({ desktopId, generation }))
  }

  /** Those that the hypervisor has paused, for their disks could not grow, as last seen. */
  outOfSpace(): DesktopId[] {
    return [...this.#outOfSpace]
  }

  /** Looks at all domains, unless that is being done; reports each that changed since the last look. */
  async lookAround(): Promise<void> {
    this.#around ??= this.#lookAround().finally(() => {
      this.#around = undefined
    })
    return this.#around
  }

  async #lookAround(): Promise<void> {
    const domains = await this.#on.driver.domains()
    const present = new Set(domains.filter(({ state }) => state === 'running').map(({ desktopId }) => desktopId))
    const changed = [...present].filter((id) => !this.#running.has(id))
    const gone = [...this.#running.keys()].filter((id) => !present.has(id))
    const paused = domains.filter(({ outOfSpace }) => outOfSpace).map(({ desktopId }) => desktopId)
    const others = [...paused, ...this.#outOfSpace]
    await Promise.all([...new Set([...changed, ...gone, ...others])].map((id) => this.#look(id, null)))
  }

  /** After a gap also what seems unchanged is looked at: a save may have been cut off under it. */
  async #lookAtAll(): Promise<void> {
    await this.lookAround()
    const believed = this.#on.journal.all().filter(({ running }) => running)
    await Promise.all(believed.map(({ desktopId }) => this.#look(desktopId, null)))
  }

  /** All work of a desktop has ended: what was heard meanwhile is looked at, what it left is remembered. */
  idle(desktopId: DesktopId): void {
    const reason = this.#waiting.get(desktopId) ?? null
    this.#waiting.delete(desktopId)
    this.#begin(desktopId, reason)
  }

  #heard(event: DriverEvent): void {
    if (event.type === 'gap') {
      this.#lookAtAll().catch((error: unknown) => this.#missed(error))
      return
    }
    if (this.#turns.busy(event.desktopId)) this.#waiting.set(event.desktopId, event.reason)
    else this.#begin(event.desktopId, event.reason)
  }

  #begin(desktopId: DesktopId, reason: string | null): void {
    this.#look(desktopId, reason).catch((error: unknown) => this.#missed(error))
  }

  #missed(error: unknown): void {
    this.#on.log.warn({ err: error }, 'a desktop could not be looked at')
  }

  #look(desktopId: DesktopId, reason: string | null): Promise<void> {
    return this.#looks.run(desktopId, async () => {
      const now = await look(this.#on, desktopId)
      if (this.#turns.busy(desktopId)) return
      const seen = asSeen(this.#on, desktopId, now, reason)
      this.#remember(desktopId, seen)
      const wasOutOfSpace = this.#noteSpace(desktopId, now)
      if (!seen) return
      if (now.domain?.outOfSpace) return wasOutOfSpace ? undefined : this.#tellOutOfSpace(seen)
      if (!this.#asExpected(seen)) await this.#tell(seen)
      if (seen.domain !== 'absent' && seen.memory === 'partial') await this.#goOn(desktopId)
    })
  }

  /** Its save was cut off: the guest goes on, and that image must never be taken for its memory. */
  async #goOn(desktopId: DesktopId): Promise<void> {
    const { driver, journal } = this.#on
    const entry = journal.read(desktopId)
    if (!entry) return
    await this.#turns.between(desktopId, entry, async () => {
      await removeVoid(this.#on, desktopId)
      if ((await driver.domain(desktopId))?.state === 'paused') await driver.resume(desktopId)
    })
  }

  #remember(desktopId: DesktopId, seen: Observation | undefined): void {
    if (seen?.domain === 'running') this.#running.set(desktopId, seen.generation)
    else this.#running.delete(desktopId)
  }

  /** Answers whether it was out of space before. */
  #noteSpace(desktopId: DesktopId, { domain }: Situation): boolean {
    const before = this.#outOfSpace.has(desktopId)
    if (domain?.outOfSpace) this.#outOfSpace.add(desktopId)
    else this.#outOfSpace.delete(desktopId)
    return before
  }

  /** It is believed to run all the same: it goes on by itself when there is room. */
  #tellOutOfSpace(seen: Observation): void {
    this.#on.log.warn({ observation: seen }, 'a desktop is paused: the host’s disk is full')
    this.#on.say('desktop.observed', seen)
  }

  /** Whether it is as the last command left it: then the command's own answer has said so. */
  #asExpected(seen: Observation): boolean {
    return Boolean(this.#on.journal.read(seen.desktopId)?.running) === (seen.domain === 'running')
  }

  async #tell(seen: Observation): Promise<void> {
    const entry = this.#on.journal.read(seen.desktopId)
    if (entry?.destroyedAt && seen.domain !== 'absent') {
      this.#on.log.warn({ desktopId: seen.desktopId }, 'a destroyed desktop stood up again; ended')
      await this.#turns.between(seen.desktopId, entry, () => removeAll(this.#on, seen.desktopId))
      return
    }
    this.#on.log.info({ observation: seen }, 'a desktop changed by itself')
    this.#on.say('desktop.observed', seen)
    if (entry && !entry.destroyedAt) await this.#on.journal.note(entry, { running: seen.domain === 'running' })
  }
}
