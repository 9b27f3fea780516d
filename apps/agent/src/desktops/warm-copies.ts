// The warm copies on this host: paused processes of sleeping desktops, each a copy of its saved memory. They hold memory that
// nothing else needs; here is decided how many stay, and for how long. Losing one costs a wake some time, and nothing else.
import type { DesktopId, HostFacts } from '@dormouse/contract'
import { type Failpoints, type Log, Semaphore } from '@dormouse/process'
import { isWarm, judge, type LookDeps, lookAtRest, spendAll } from './situation.ts'
import type { Turn, Turns } from './turns.ts'

/** The host's memory, in MiB. */
export interface HostMemory {
  totalMiB: number
  /** What new processes can have without swapping. */
  availableMiB: number
}

export interface WarmDeps extends LookDeps {
  turns: Turns
  failpoints: Failpoints
  log: Log
}

export interface WarmOptions {
  /** How much memory they may hold together; 0 keeps none. */
  maxMiB: number
  /** How long each is kept. */
  maxAgeMs: number
  hostMemory: () => HostMemory
  now?: () => number
}

interface Copy {
  desktopId: DesktopId
  since: number
  memoryMiB: number
}

/** Below this share of the host's memory, copies are ended until as much is available again. */
const scarceShare = 0.1

export class WarmCopies {
  readonly #deps: WarmDeps
  readonly #options: WarmOptions
  readonly #now: () => number
  /** The oldest first. */
  readonly #copies = new Map<DesktopId, Copy>()
  /** Whether a look at all domains may find others than are known here. */
  #isOutdated = true
  readonly #checks = new Semaphore(1)

  constructor(deps: WarmDeps, options: WarmOptions) {
    this.#deps = deps
    this.#options = options
    this.#now = options.now ?? (() => performance.now())
    deps.driver.listen((event) => {
      if (event.type === 'gap' || (event.type === 'domain' && this.#copies.has(event.desktopId)))
        this.#isOutdated = true
    })
  }

  get facts(): HostFacts['warm'] {
    return { copies: this.#copies.size, memoryMiB: this.#memoryMiB, maxMiB: this.#options.maxMiB }
  }

  get #memoryMiB(): number {
    return [...this.#copies.values()].reduce((sum, { memoryMiB }) => sum + memoryMiB, 0)
  }

  /** Whether the desktop that is about to sleep may stay in memory. */
  mayKeep(memoryMiB: number): boolean {
    return memoryMiB <= this.#options.maxMiB && !this.#isScarce()
  }

  /** Its process stays, as a copy. */
  async keep(desktopId: DesktopId, atMostMiB: number): Promise<void> {
    const memoryMiB = (await this.#deps.driver.residentMiB(desktopId)) ?? atMostMiB
    this.#copies.delete(desktopId)
    this.#copies.set(desktopId, { desktopId, since: this.#now(), memoryMiB })
  }

  /** It is no copy any more: it runs, or it was ended. */
  forget(desktopId: DesktopId): void {
    this.#copies.delete(desktopId)
  }

  /** To be called every few seconds: ends the copies that are too old or too many, or whose memory is needed. */
  check(): Promise<void> {
    return this.#checks.run(async () => {
      if (this.#isOutdated) await this.#find()
      await this.#dropWhile(
        ({ since }) =>
          this.#now() - since >= this.#options.maxAgeMs || this.#memoryMiB > this.#options.maxMiB || this.#isScarce(),
      )
    })
  }

  /** Before a guest starts: its memory is available afterwards, as far as copies held it. */
  async makeSpace(memoryMiB: number): Promise<void> {
    if (this.#copies.size > 0 && this.#isScarce(memoryMiB))
      await this.#checks.run(() => this.#dropWhile(() => this.#isScarce(memoryMiB)))
  }

  /** Whether this much of the host's memory is available. */
  hasSpaceFor(memoryMiB: number): boolean {
    return !this.#isScarce(memoryMiB)
  }

  /** Returns how many there were. */
  async dropAll(): Promise<number> {
    return this.#checks.run(async () => {
      await this.#find()
      return this.#dropWhile(() => true)
    })
  }

  #isScarce(besideMiB = 0): boolean {
    const { totalMiB, availableMiB } = this.#options.hostMemory()
    return availableMiB - besideMiB < totalMiB * scarceShare
  }

  /** Those that an agent before this one has left, and no more those that are gone. */
  async #find(): Promise<void> {
    const { driver, memory, journal } = this.#deps
    // Before the look: an event that comes meanwhile counts.
    this.#isOutdated = false
    const domains = await driver.domains().catch((error: unknown) => {
      this.#isOutdated = true
      throw error
    })
    const there = new Set<DesktopId>()
    for (const domain of domains.filter(({ state }) => state === 'paused')) {
      const { desktopId } = domain
      const entry = journal.read(desktopId)
      const images = memory.list(desktopId)
      if (entry?.running || !isWarm({ domain, images, ...judge(images, domain, entry) })) continue
      there.add(desktopId)
      if (!this.#copies.has(desktopId)) await this.keep(desktopId, entry?.spec?.memoryMiB ?? 0)
    }
    for (const desktopId of this.#copies.keys()) if (!there.has(desktopId)) this.#copies.delete(desktopId)
  }

  /** Ends the oldest, one after the other, while the condition holds for it. Returns how many it ended. */
  async #dropWhile(condition: (copy: Copy) => boolean): Promise<number> {
    let dropped = 0
    for (const copy of [...this.#copies.values()]) {
      if (!condition(copy)) break
      if (await this.#drop(copy)) dropped++
    }
    return dropped
  }

  /**
   * Ends the copy, unless a command has begun meanwhile: then the copy is that command's. A copy that cannot be ended delays no
   * other, and no guest that needs its memory.
   */
  async #drop({ desktopId }: Copy): Promise<boolean> {
    const { turns, journal, log } = this.#deps
    const entry = journal.read(desktopId)
    if (!entry) return false
    const dropped = await turns.whileIdle(desktopId, entry, async (turn) => {
      this.#copies.delete(desktopId)
      return dropWarmCopy(this.#deps, turn).catch((err: unknown) => {
        this.#isOutdated = true
        log.warn({ err, desktopId }, 'a warm copy could not be ended; retrying')
        return false
      })
    })
    if (dropped) log.debug({ desktopId }, 'a warm copy was ended')
    return dropped === true
  }
}

/**
 * Ends the desktop's warm copy, if it has one. A process that has run since its save holds the desktop's only memory, and its
 * image is worth nothing: it stays.
 */
export async function dropWarmCopy(
  deps: LookDeps & Pick<WarmDeps, 'failpoints' | 'log'>,
  turn: Turn,
): Promise<boolean> {
  const { desktopId } = turn.fence
  const now = await lookAtRest(deps, desktopId)
  if (!isWarm(now)) return false
  if (!(await deps.driver.isKept(desktopId))) {
    await spendAll(deps, turn, {})
    deps.log.error(
      { desktopId, alarm: true, alarmKind: 'warm' },
      'the process of a sleeping desktop was resumed by something else; its memory is kept, its saved image is not used',
    )
    return false
  }
  await deps.failpoints.hit('warm.before-drop')
  await deps.driver.kill(desktopId)
  await deps.failpoints.hit('warm.after-drop')
  return true
}
