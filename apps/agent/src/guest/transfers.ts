// Limits the transfers of files with one guest: a few at once are as fast as many, all of them make progress, and commands
// are not held up. Knows nothing of how a file is transferred.
import { type DesktopId, Refusal } from '@dormouse/contract'
import { Semaphore } from '@dormouse/process'
import { fileLimits } from '../scripts/limits.ts'

export class Transfers {
  readonly #slots = new Semaphore(Number.POSITIVE_INFINITY, fileLimits.transfersAtOnce)

  /** Runs the transfer when it is its turn; throws when the timeout for that passes, or the signal aborts before. */
  run<T>(desktopId: DesktopId, timeoutSecs: number, signal: AbortSignal, move: () => Promise<T>): Promise<T> {
    const limit = { ms: timeoutSecs * 1_000, error: () => tooMany(timeoutSecs) }
    return this.#slots.run(move, { share: desktopId, signal, limit })
  }
}

const tooMany = (secs: number) =>
  new Refusal(
    'guest_unavailable',
    `the desktop’s ${fileLimits.transfersAtOnce} running transfers did not finish within ${secs} s; retry with fewer at once`,
  )
