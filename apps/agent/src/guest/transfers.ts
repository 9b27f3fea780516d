// Limits the transfers of files with one guest: a few at once are as fast as many, all of them make progress, and commands
// are not held up. Knows nothing of how a file is transferred.
import { type DesktopId, Refusal } from '@dormouse/contract'
import { Slots } from '../mechanics/locks.ts'
import { fileLimits } from '../scripts/limits.ts'

interface Queue {
  slots: Slots
  users: number
}

export class Transfers {
  readonly #queues = new Map<DesktopId, Queue>()

  /** Runs the transfer when it is its turn; throws when the timeout for that passes, or the signal aborts before. */
  async run<T>(desktopId: DesktopId, timeoutSecs: number, signal: AbortSignal, move: () => Promise<T>): Promise<T> {
    const queue = this.#queues.get(desktopId) ?? { slots: new Slots(fileLimits.transfersAtOnce), users: 0 }
    this.#queues.set(desktopId, queue)
    queue.users++
    const late = new AbortController()
    const timer = setTimeout(() => late.abort(tooMany(timeoutSecs)), timeoutSecs * 1_000)
    const start = () => {
      clearTimeout(timer)
      return move()
    }
    try {
      return await queue.slots.run(AbortSignal.any([signal, late.signal]), start)
    } finally {
      clearTimeout(timer)
      if (--queue.users === 0) this.#queues.delete(desktopId)
    }
  }
}

const tooMany = (secs: number) =>
  new Refusal(
    'guest_unavailable',
    `the desktop’s ${fileLimits.transfersAtOnce} running transfers did not finish within ${secs} s; retry with fewer at once`,
  )
