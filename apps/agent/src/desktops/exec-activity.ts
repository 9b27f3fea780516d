// What running execs count as activity of their desktop. An exec with a timeout, or with `keep_awake`, counts as a command in
// flight. Any other exec counts while bytes move: each check compares their number with that of the last check.
import { type DesktopId, Refusal } from '@dormouse/contract'
import { eachApart, type Log } from '@dormouse/process'
import type { Guests } from '../driver/guest-transport.ts'
import type { GuestExecs } from '../guest/execs.ts'
import type { ExecReport } from '../scripts/supervisor.ts'
import type { Activity } from './activity.ts'
import type { Watch } from './watch.ts'

interface ExecActivityDeps {
  watch: Pick<Watch, 'running'>
  guests: Guests
  execs: Pick<GuestExecs, 'running'>
  activity: Pick<Activity, 'begin'>
  log: Log
}

interface Known {
  generation: number
  /** False until its guest was checked: it may have older execs, or some from another host. */
  isLookedAt: boolean
  /** From each running exec to how many bytes it had moved at the last check. */
  bytes: Map<string, number>
  running: number
  /** Whether its guest did not answer the last look. */
  isSilent: boolean
  holds: Disposable | undefined
}

interface Target {
  desktopId: DesktopId
  generation: number
}

const looksAtOnce = 4

export class ExecActivity {
  readonly #deps: ExecActivityDeps
  readonly #known = new Map<DesktopId, Known>()
  #looking: Promise<void> | undefined

  constructor(deps: ExecActivityDeps) {
    this.#deps = deps
  }

  /** From now on the desktop is looked at. */
  started({ desktopId, generation }: Target, exec: ExecReport): void {
    const known = this.#of({ desktopId, generation })
    known.running = Math.max(1, known.running)
    if (holdsAwake(exec)) known.holds ??= this.#begin(desktopId)
  }

  /** Bytes have moved just now. */
  moved(desktopId: DesktopId): void {
    this.#begin(desktopId)?.[Symbol.dispose]()
  }

  /** Looks at every desktop that may have running execs. To be called every few seconds; joins a look in progress. */
  look(): Promise<void> {
    this.#looking ??= this.#lookAtAll().finally(() => {
      this.#looking = undefined
    })
    return this.#looking
  }

  async #lookAtAll(): Promise<void> {
    const running = this.#deps.watch.running()
    const present = new Set(running.map(({ desktopId }) => desktopId))
    for (const [desktopId, { holds }] of this.#known) {
      if (present.has(desktopId)) continue
      holds?.[Symbol.dispose]()
      this.#known.delete(desktopId)
    }
    const due = running.filter((target) => {
      const known = this.#of(target)
      return !known.isLookedAt || known.running > 0
    })
    // Guests that answer do not wait for those that do not.
    const silentLast = due.toSorted((a, b) => Number(this.#of(a).isSilent) - Number(this.#of(b).isSilent))
    const failed = (err: unknown, { desktopId }: Target) =>
      this.#deps.log.warn({ err, desktopId }, 'the execs of a guest could not be listed')
    await eachApart(silentLast, { atOnce: looksAtOnce, failed }, (target) => this.#lookAt(target))
  }

  async #lookAt(target: Target): Promise<void> {
    const { guests, execs } = this.#deps
    const { desktopId } = target
    const known = this.#of(target)
    try {
      const reports = await execs.running(guests.guest(desktopId))
      if (this.#known.get(desktopId) !== known) return
      this.#note(desktopId, known, reports)
    } catch (error) {
      // It is checked again.
      known.isSilent = true
      if (!(error instanceof Refusal)) throw error
    }
  }

  #note(desktopId: DesktopId, known: Known, reports: ExecReport[]): void {
    const alive = reports.filter(({ state }) => state === 'running')
    const bytes = new Map(alive.map((exec) => [exec.id, exec.stdout.end + exec.stderr.end + exec.stdin.end]))
    const hasMoved = [...bytes].some(([id, now]) => now > (known.bytes.get(id) ?? 0))
    if (known.isLookedAt && hasMoved) this.moved(desktopId)
    if (alive.some(holdsAwake)) known.holds ??= this.#begin(desktopId)
    else {
      known.holds?.[Symbol.dispose]()
      known.holds = undefined
    }
    Object.assign(known, { isLookedAt: true, isSilent: false, bytes, running: alive.length })
  }

  /** A desktop that is about to hibernate takes no activity. */
  #begin(desktopId: DesktopId): Disposable | undefined {
    try {
      return this.#deps.activity.begin(desktopId, 'command')
    } catch (error) {
      if (error instanceof Refusal) return undefined
      throw error
    }
  }

  #of({ desktopId, generation }: Target): Known {
    const known = this.#known.get(desktopId)
    if (known?.generation === generation) return known
    known?.holds?.[Symbol.dispose]()
    const made: Known = {
      generation,
      isLookedAt: false,
      bytes: new Map(),
      running: 0,
      isSilent: false,
      holds: undefined,
    }
    this.#known.set(desktopId, made)
    return made
  }
}

const holdsAwake = ({ state, keep_awake, timeout_secs }: ExecReport): boolean =>
  state === 'running' && (keep_awake || timeout_secs !== null)
