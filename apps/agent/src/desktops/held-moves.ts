// The moves that this agent process holds open: connections to the hypervisor and to the other host. None outlives the
// process; what must be known after a restart is in the journal.
import { type DesktopId, refuse } from '@dormouse/contract'

export interface HeldMove {
  moveId: string
  /** Ends its connections. What is paused stays paused. */
  close(): void
}

/** Each holds a thread of the hypervisor's daemon while it sends. */
const maxMoves = 8

export class HeldMoves<M extends HeldMove = HeldMove> {
  readonly #held = new Map<DesktopId, M>()

  of(desktopId: DesktopId): M | undefined {
    return this.#held.get(desktopId)
  }

  /** Refuses if as many as possible are held. To be called before anything is opened. */
  requireSpace(): void {
    if (this.#held.size >= maxMoves)
      refuse('too_many_moves', `${this.#held.size} moves are in progress on this host; retry later`)
  }

  hold(desktopId: DesktopId, move: M): void {
    this.end(desktopId)
    this.#held.set(desktopId, move)
  }

  /** Closes the desktop's move, if there is one. */
  end(desktopId: DesktopId): void {
    this.#held.get(desktopId)?.close()
    this.#held.delete(desktopId)
  }

  close(): void {
    for (const desktopId of [...this.#held.keys()]) this.end(desktopId)
  }
}
