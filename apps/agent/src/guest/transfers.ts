// The files that move into and out of guests, a few at once for each desktop: they go as fast as many would, none of them
// starves, and commands find room beside them. Knows nothing of how a file is moved.
import { type DesktopId, Refusal } from '@dormouse/contract'
import { Slots } from '../mechanics/locks.ts'

const atOnce = 4

interface Queue {
  slots: Slots
  users: number
}

export class Transfers {
  readonly #queues = new Map<DesktopId, Queue>()

  /** Waits for a turn, so long at most, and unless the signal aborts; then moves the file. */
  async run<T>(desktopId: DesktopId, timeoutSecs: number, signal: AbortSignal, move: () => Promise<T>): Promise<T> {
    const queue = this.#queues.get(desktopId) ?? { slots: new Slots(atOnce), users: 0 }
    this.#queues.set(desktopId, queue)
    queue.users++
    const late = new AbortController()
    const timer = setTimeout(() => late.abort(tooMany(timeoutSecs)), timeoutSecs * 1_000)
    const begin = () => {
      clearTimeout(timer)
      return move()
    }
    try {
      return await queue.slots.run(AbortSignal.any([signal, late.signal]), begin)
    } finally {
      clearTimeout(timer)
      if (--queue.users === 0) this.#queues.delete(desktopId)
    }
  }
}

const tooMany = (secs: number) =>
  new Refusal('guest_unavailable', `the desktop’s other transfers left no room for ${secs} s; try again, fewer at once`)
