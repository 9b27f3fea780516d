// One piece of work at a time per desktop, in the order of (generation, turn). A lower pair is refused. An equal one joins
// the work in progress. A higher one is journalled at once, and the work in progress ends as `superseded`.
import { type DesktopId, type Fence, Refusal, refuse } from '@dormouse/contract'
import { KeyedMutex } from '@dormouse/process'
import type { Journal, WriteOptions } from './journal.ts'
import { comparePairs, type Entry, type Note } from './journal-entry.ts'

/** What a piece of work gets. */
export interface Turn {
  fence: Fence
  /** Aborted, with a `superseded` refusal, when a later turn was accepted. */
  signal: AbortSignal
  /** Settles when earlier work has ended. Only work that pre-empts has to wait for it itself. */
  earlier: Promise<unknown>
  entry(): Entry
  note(note: Note, options?: Pick<WriteOptions, 'unsynced' | 'syncLater'>): Promise<Entry>
  /** Resolves when the turn is on the disk, with every note that was to be synced later. */
  synced(): Promise<void>
}

interface Work {
  fence: Pick<Fence, 'generation' | 'turn' | 'operationId'>
  command: string
  controller: AbortController
  promise: Promise<unknown>
}

interface TurnOptions {
  /** Starts before earlier work has ended, and ends it itself. */
  preempts?: boolean
  /** Undoes what this turn has done: the turn accepts no other command afterwards. */
  undoes?: boolean
  /** Is accepted on a full disk, too. */
  freesSpace?: boolean
  /**
   * The work begins before the turn is on the disk. It calls `synced` before its first effect that a power cut does not undo.
   * Nothing is lost if only the agent dies: what is written survives that.
   */
  syncsLater?: boolean
  /** Is accepted while the desktop moves between hosts. */
  moves?: boolean
}

/** `accepted`: a desktop's turn was accepted. `idle`: the last piece of its work has ended. Neither throws. */
export type TurnListener = Record<'accepted' | 'idle', (desktopId: DesktopId) => void>

/** Work without a command has no deadline. */
const idleWorkMs = 86_400_000

const superseded = () => new Refusal('superseded', 'a later request for this desktop was accepted')

export class Turns {
  readonly #journal: Journal
  readonly #listener: TurnListener
  readonly #admissions = new KeyedMutex()
  readonly #works = new Map<DesktopId, Work[]>()

  constructor(journal: Journal, listener: TurnListener) {
    this.#journal = journal
    this.#listener = listener
  }

  busy(desktopId: DesktopId): boolean {
    return this.#works.has(desktopId)
  }

  /** Does the work when its turn comes, or joins the same work in progress. */
  async run<T>(fence: Fence, command: string, work: (turn: Turn) => Promise<T>, options: TurnOptions = {}): Promise<T> {
    await this.#journal.raiseEpoch(fence.epoch)
    const mine = await this.#admissions.run(fence.desktopId, () => this.#admit(fence, command, work, options))
    return mine.promise as Promise<T>
  }

  /** Does the work if no other is in progress for the desktop and its journal is still at `seen`; else returns undefined. */
  async whileIdle<T>(desktopId: DesktopId, seen: Pick<Entry, 'generation' | 'turn'>, work: (turn: Turn) => Promise<T>) {
    const mine = await this.#admissions.run(desktopId, async () => {
      const entry = this.#journal.read(desktopId)
      if (this.busy(desktopId) || !entry || comparePairs(entry, seen) !== 0) return undefined
      const { generation, turn, operationId } = entry
      const epoch = this.#journal.highestEpoch
      const fence = { desktopId, epoch, generation, turn, operationId: operationId ?? '', deadlineMs: idleWorkMs }
      const begin = (signal: AbortSignal, earlier: Promise<unknown>) => work(this.#turn(fence, {}, signal, earlier))
      return { work: this.#add(desktopId, fence, 'while idle', begin) }
    })
    return (await mine?.work.promise) as T | undefined
  }

  /** Resolves when no work is in progress. */
  async settled(): Promise<void> {
    while (this.#works.size > 0) {
      await Promise.allSettled([...this.#works.values()].flat().map(({ promise }) => promise))
    }
  }

  async #admit<T>(
    fence: Fence,
    command: string,
    work: (turn: Turn) => Promise<T>,
    options: TurnOptions,
  ): Promise<Work> {
    this.#requireCurrent(fence, options)
    const live = this.#works.get(fence.desktopId) ?? []
    const same = live.find((other) => other.command === command && comparePairs(other.fence, fence) === 0)
    if (same) return same
    const how = { ...options, syncLater: options.syncsLater === true }
    await this.#journal.accept(fence, command, options.undoes ? { takenBack: true } : {}, how)
    this.#listener.accepted(fence.desktopId)
    for (const other of live) if (supersedes(fence, options, other)) other.controller.abort(superseded())
    return this.#add(fence.desktopId, fence, command, async (signal, earlier) => {
      if (!options.preempts) await earlier
      signal.throwIfAborted()
      return this.#do(this.#turn(fence, options, signal, earlier), work)
    })
  }

  #requireCurrent(fence: Fence, { preempts, undoes, moves }: TurnOptions): void {
    const entry = this.#journal.read(fence.desktopId)
    if (!entry) return
    const order = comparePairs(fence, entry)
    if (order < 0 || (order === 0 && entry.operationId !== null && entry.operationId !== fence.operationId)) {
      const { generation, turn } = entry
      refuse('stale_turn', `this host has already accepted generation ${generation}, turn ${turn} of this desktop`)
    }
    if (entry.destroyedAt && !preempts) refuse('stale_turn', 'the desktop was destroyed on this host')
    if (order === 0 && entry.takenBack && !undoes && !preempts) {
      refuse('superseded', 'this turn was undone')
    }
    // Whether it may run here is for the control plane to decide, and its decision is a command of the move.
    if (entry.move && !moves && !preempts) refuse('moving', 'the desktop is moving; end the move first')
  }

  #turn(fence: Fence, options: TurnOptions, signal: AbortSignal, earlier: Promise<unknown>): Turn {
    return {
      fence,
      signal,
      earlier,
      entry: () => this.#journal.read(fence.desktopId)!,
      note: (note, how) => this.#journal.note(fence, note, { ...options, ...how }),
      synced: () => this.#journal.synced(fence.desktopId),
    }
  }

  async #do<T>(turn: Turn, work: (turn: Turn) => Promise<T>): Promise<T> {
    try {
      const result = await work(turn)
      await turn.synced()
      await turn.note({ state: 'done', failure: null })
      return result
    } catch (error) {
      turn.signal.throwIfAborted()
      const failure = error instanceof Error ? error.message : String(error)
      await turn.note({ state: 'failed', failure }).catch((second: unknown) => {
        // A later turn was accepted: the result of this one is its own failure anyway.
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
    this.#listener.idle(desktopId)
  }
}

/** A later turn supersedes all earlier work; an undo or a destroy supersedes also the work of its own turn. */
function supersedes(fence: Fence, { undoes, preempts }: TurnOptions, other: Work): boolean {
  return comparePairs(other.fence, fence) < 0 || undoes === true || preempts === true
}
