// Notices what happens to desktops without a command: a guest powers off, a process dies, the hypervisor was unreachable.
// It reports, and repairs three things only: it removes a desktop that appears again after its destruction, it resumes a guest
// whose save was interrupted, and it spends the saved memory of a guest that something else has resumed.
import type { DesktopId, Observation } from '@dormouse/contract'
import type { Log } from '@dormouse/process'
import { KeyedMutex } from '@dormouse/process'
import type { DriverEvent } from '../driver/driver.ts'
import { type RemoveDeps, removeAll } from './destroy.ts'
import { toObservation } from './inventory.ts'
import type { Entry } from './journal-entry.ts'
import type { SendReport } from './report.ts'
import { type LookDeps, look, lookAtRest, removeVoid, type Situation, spendAll } from './situation.ts'
import type { Turns } from './turns.ts'

export interface WatchDeps extends LookDeps, RemoveDeps {
  driver: LookDeps['driver']
  memory: LookDeps['memory']
  turns: Turns
  report: SendReport
  log: Log
}

export class Watch {
  readonly #deps: WatchDeps
  /** The reasons of events that came while a command was in progress; checked when it has ended. */
  readonly #pending = new Map<DesktopId, string | null>()
  /** What ran at the last check: a desktop that does not any more has changed. */
  readonly #running = new Map<DesktopId, number>()
  readonly #outOfSpace = new Set<DesktopId>()
  readonly #checks = new KeyedMutex()
  #checkingAll: Promise<void> | undefined

  constructor(deps: WatchDeps) {
    this.#deps = deps
    deps.driver.listen((event) => this.#heard(event))
  }

  /** Each desktop that ran at the last check, with its generation. A guest without an identity of its own is left out. */
  running(): { desktopId: DesktopId; generation: number }[] {
    return [...this.#running]
      .map(([desktopId, generation]) => ({ desktopId, generation }))
      .filter(({ desktopId }) => this.#deps.journal.read(desktopId)?.identity !== 'template')
  }

  /** The desktops that were paused at the last check because their disks could not grow. */
  outOfSpace(): DesktopId[] {
    return [...this.#outOfSpace]
  }

  /** Checks all domains, or joins a check in progress; reports each desktop that has changed since the last one. */
  async checkAll(): Promise<void> {
    this.#checkingAll ??= this.#checkAll().finally(() => {
      this.#checkingAll = undefined
    })
    return this.#checkingAll
  }

  async #checkAll(): Promise<void> {
    const domains = await this.#deps.driver.domains()
    const present = new Set(domains.filter(({ state }) => state === 'running').map(({ desktopId }) => desktopId))
    const started = [...present].filter((id) => !this.#running.has(id))
    const ended = [...this.#running.keys()].filter((id) => !present.has(id))
    const paused = domains.filter(({ pause }) => pause === 'space').map(({ desktopId }) => desktopId)
    const changed = new Set([...started, ...ended, ...paused, ...this.#outOfSpace])
    await Promise.all([...changed].map((id) => this.#check(id, null)))
  }

  /** After a gap also what seems unchanged is checked: a save may have been interrupted meanwhile. */
  async #checkAfterGap(): Promise<void> {
    await this.checkAll()
    const expected = this.#deps.journal.all().filter(({ running }) => running)
    await Promise.all(expected.map(({ desktopId }) => this.#check(desktopId, null)))
  }

  /** All work of a desktop has ended: checks what it left, and any event that came meanwhile. */
  idle(desktopId: DesktopId): void {
    const reason = this.#pending.get(desktopId) ?? null
    this.#pending.delete(desktopId)
    this.#begin(this.#check(desktopId, reason))
  }

  #heard(event: DriverEvent): void {
    if (event.type === 'guest') return
    if (event.type === 'gap') this.#begin(this.#checkAfterGap())
    else if (this.#deps.turns.busy(event.desktopId)) this.#pending.set(event.desktopId, event.reason)
    else this.#begin(this.#check(event.desktopId, event.reason))
  }

  #begin(check: Promise<void>): void {
    check.catch((error: unknown) => this.#deps.log.warn({ err: error }, 'a desktop could not be checked'))
  }

  #check(desktopId: DesktopId, reason: string | null): Promise<void> {
    return this.#checks.run(desktopId, async () => {
      if (reason === null && (await this.#isSettled(desktopId))) return
      const now = await look(this.#deps, desktopId)
      if (this.#deps.turns.busy(desktopId)) return
      const seen = toObservation(this.#deps, desktopId, now, reason)
      this.#remember(desktopId, seen)
      const wasOutOfSpace = this.#rememberSpace(desktopId, now)
      if (!seen) return
      if (now.domain?.pause === 'space') return wasOutOfSpace ? undefined : this.#reportOutOfSpace(seen)
      if (!this.#isExpected(seen)) await this.#reportChange(seen)
      if (seen.domain !== 'absent' && seen.memory === 'partial' && !seen.move) await this.#resume(desktopId)
    })
  }

  /** Whether the domain is as the last command has left it, when that succeeded: then nothing else has to be looked at. */
  async #isSettled(desktopId: DesktopId): Promise<boolean> {
    const { driver, journal, turns } = this.#deps
    const domain = await driver.domain(desktopId)
    const entry = journal.read(desktopId)
    if (entry?.state !== 'done' || turns.busy(desktopId) || this.#outOfSpace.has(desktopId)) return false
    if (entry.running !== (domain?.state === 'running') || (domain && !entry.running)) return false
    if (domain) this.#running.set(desktopId, entry.generation)
    else this.#running.delete(desktopId)
    return true
  }

  /** Something else has resumed it: its disk changes, and its saved memory does not belong to it any more. */
  async #spend(desktopId: DesktopId, entry: Entry): Promise<void> {
    await this.#deps.turns.whileIdle(desktopId, entry, (turn) => spendAll(this.#deps, turn, {}))
  }

  /** Its save was interrupted: the guest is resumed, and that image must never be taken for its memory. */
  async #resume(desktopId: DesktopId): Promise<void> {
    const { driver, journal, turns } = this.#deps
    const entry = journal.read(desktopId)
    if (!entry) return
    await turns.whileIdle(desktopId, entry, async () => {
      await removeVoid(this.#deps, await lookAtRest(this.#deps, desktopId))
      if ((await driver.domain(desktopId))?.state === 'paused') await driver.resumeKept(desktopId)
    })
  }

  #remember(desktopId: DesktopId, seen: Observation | undefined): void {
    if (seen?.domain === 'running') this.#running.set(desktopId, seen.generation)
    else this.#running.delete(desktopId)
  }

  /** Returns whether it was out of space before. */
  #rememberSpace(desktopId: DesktopId, { domain }: Situation): boolean {
    const before = this.#outOfSpace.has(desktopId)
    if (domain?.pause === 'space') this.#outOfSpace.add(desktopId)
    else this.#outOfSpace.delete(desktopId)
    return before
  }

  /** The journal keeps it as running: it is resumed when there is space. */
  #reportOutOfSpace(seen: Observation): void {
    this.#deps.log.warn({ observation: seen }, 'a desktop is paused because the host’s disk is full')
    this.#deps.report('desktop.observed', seen)
  }

  /** Whether the last command left it so: then the command's own result has reported it. A move pauses it on both hosts. */
  #isExpected(seen: Observation): boolean {
    if (seen.move && seen.domain === 'paused') return true
    return Boolean(this.#deps.journal.read(seen.desktopId)?.running) === (seen.domain === 'running')
  }

  async #reportChange(seen: Observation): Promise<void> {
    const { journal, turns, report, log } = this.#deps
    const entry = journal.read(seen.desktopId)
    if (entry?.destroyedAt && seen.domain !== 'absent') {
      log.warn({ desktopId: seen.desktopId }, 'a destroyed desktop appeared again; it is removed')
      await turns.whileIdle(seen.desktopId, entry, () => removeAll(this.#deps, seen.desktopId))
      return
    }
    if (seen.pause) {
      // The journal keeps it as running: its guest is to be saved, or resumed.
      log.warn({ observation: seen }, 'a desktop was paused without a command')
      return report('desktop.observed', seen)
    }
    log.info({ observation: seen }, 'a desktop changed without a command')
    if (entry && seen.domain === 'running' && seen.memory === 'complete') await this.#spend(seen.desktopId, entry)
    report('desktop.observed', seen)
    if (entry && !entry.destroyedAt) await journal.note(entry, { running: seen.domain === 'running' })
  }
}
