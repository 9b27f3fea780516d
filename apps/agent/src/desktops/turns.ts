// One piece of work at a time per desktop, in the order of (generation, turn). A lower pair is refused, an equal one
// joins, a higher one overtakes: it is journalled at once, and what it overtook ends as `superseded`.
import { type DesktopId, type Fence, Refusal, refuse } from '@dormouse/contract'
import { KeyedLock } from '../mechanics/locks.ts'
import { comparePairs, type Entry, type Journal, type Note } from './journal.ts'

/** What a piece of work is given. */
export interface Turn {
  fence: Fence
  /** Aborted, with a `superseded` refusal, when a later turn was accepted. */
  signal: AbortSignal
  /** The work that was there before has ended. Only what pre-empts needs to wait for it itself. */
  earlier: Promise<unknown>
  entry(): Entry
  note(note: Note): Promise<Entry>
}

interface Work {
  fence: Pick<Fence, 'generation' | 'turn' | 'operationId'>
  command: string
  controller: AbortController
  promise: Promise<unknown>
}

interface Manner {
  /** Does not wait for earlier work to end, but ends it itself. */
  preempts?: boolean
  /** Takes back what this same turn has done: nothing forward is obeyed in this turn any more. */
  takesBack?: boolean
  /** Is obeyed on a full disk, too. */
  makesRoom?: boolean
}

const overtaken = () => new Refusal('superseded', 'a later request for this desktop was accepted')

export class Turns {
  readonly #journal: Journal
  readonly #idle: (desktopId: DesktopId) => void
  readonly #doors = new KeyedLock()
  readonly #works = new Map<DesktopId, Work[]>()

  /** `idle` is called whenever the last work of a desktop has ended. */
  constructor(journal: Journal, idle: (desktopId: DesktopId) => void) {
    this.#journal = journal
    this.#idle = idle
  }

  busy(desktopId: DesktopId): boolean {
    return this.#works.has(desktopId)
  }

  /** Does the work when its turn comes, or joins the same work under way. */
  async obey<T>(fence: Fence, command: string, work: (turn: Turn) => Promise<T>, manner: Manner = {}): Promise<T> {
    await this.#journal.raiseEpoch(fence.epoch)
    const mine = await this.#doors.run(fence.desktopId, () => this.#admit(fence, command, work, manner))
    return mine.promise as Promise<T>
  }

  /** Does the work if nothing else is being done for the desktop and its journal says `seen`; else undefined. */
  async between<T>(desktopId: DesktopId, seen: Pick<Entry, 'generation' | 'turn'>, work: () => Promise<T>) {
    const mine = await this.#doors.run(desktopId, async () => {
      const entry = this.#journal.read(desktopId)
      if (this.busy(desktopId) || !entry || comparePairs(entry, seen) !== 0) return undefined
      const fence = { ...seen, operationId: entry.operationId ?? '' }
      return { work: this.#add(desktopId, fence, 'between', () => work()) }
    })
    return (await mine?.work.promise) as T | undefined
  }

  /** Returns when nothing is being done any more. */
  async settled(): Promise<void> {
    while (this.#works.size > 0) {
      await Promise.allSettled([...this.#works.values()].flat().map(({ promise }) => promise))
    }
  }

  async #admit<T>(fence: Fence, command: string, work: (turn: Turn) => Promise<T>, manner: Manner): Promise<Work> {
    this.#mustBeDue(fence, manner)
    const live = this.#works.get(fence.desktopId) ?? []
    const same = live.find((other) => other.command === command && comparePairs(other.fence, fence) === 0)
    if (same) return same
    await this.#journal.accept(fence, command, manner.takesBack ? { takenBack: true } : {}, manner)
    for (const other of live) if (overtakes(fence, manner, other)) other.controller.abort(overtaken())
    return this.#add(fence.desktopId, fence, command, async (signal, earlier) => {
      if (!manner.preempts) await earlier
      signal.throwIfAborted()
      return this.#do(this.#turn(fence, manner, signal, earlier), work)
    })
  }

  #mustBeDue(fence: Fence, manner: Manner): void {
    const entry = this.#journal.read(fence.desktopId)
    if (!entry) return
    const order = comparePairs(fence, entry)
    if (order < 0 || (order === 0 && entry.operationId !== null && entry.operationId !== fence.operationId)) {
      const { generation, turn } = entry
      refuse('stale_turn', `generation ${generation}, turn ${turn} of this desktop was obeyed before`)
    }
    if (entry.destroyedAt && !manner.preempts) refuse('stale_turn', 'the desktop was destroyed on this host')
    if (order === 0 && entry.takenBack && !manner.takesBack && !manner.preempts) {
      refuse('superseded', 'this turn was taken back')
    }
  }

  #turn(fence: Fence, manner: Manner, signal: AbortSignal, earlier: Promise<unknown>): Turn {
    return {
      fence,
      signal,
      earlier,
      entry: () => this.#journal.read(fence.desktopId)!,
      note: (note) => this.#journal.note(fence, note, manner),
    }
  }

  async #do<T>(turn: Turn, work: (turn: Turn) => Promise<T>): Promise<T> {
    try {
      const result = await work(turn)
      await turn.note({ state: 'done', failure: null })
      return result
    } catch (error) {
      turn.signal.throwIfAborted()
      const failure = error instanceof Error ? error.message : String(error)
      await turn.note({ state: 'failed', failure }).catch((second: unknown) => {
        // A later turn is there already: what this one failed at is its answer all the same.
        if (second instanceof Refusal) throw error
        throw new AggregateError([error, second], failure)
      })
      throw error
    }
  }

  #add(
    desktopId: DesktopId,
    fence: Work['fence'],
    command: string,
    work: (signal: AbortSignal, earlier: Promise<unknown>) => Promise<unknown>,
  ): Work {
    const live = this.#works.get(desktopId) ?? []
    const controller = new AbortController()
    const promise = work(controller.signal, Promise.allSettled(live.map((other) => other.promise)))
    const added: Work = { fence, command, controller, promise }
    this.#works.set(desktopId, [...live, added])
    promise.then(
      () => this.#ended(desktopId, added),
      () => this.#ended(desktopId, added),
    )
    return added
  }

  #ended(desktopId: DesktopId, work: Work): void {
    const left = (this.#works.get(desktopId) ?? []).filter((other) => other !== work)
    if (left.length > 0) {
      this.#works.set(desktopId, left)
      return
    }
    this.#works.delete(desktopId)
    this.#idle(desktopId)
  }
}

/** A later turn overtakes whatever is there; an undo or a destroy overtakes also its own turn. */
function overtakes(fence: Fence, manner: Manner, other: Work): boolean {
  return comparePairs(other.fence, fence) < 0 || manner.takesBack === true || manner.preempts === true
}
