// Limits the transfers of files with one guest, and each step of them: a few at once are as fast as many, all of them make
// progress, and commands are not held up. Knows nothing of how a file is transferred.
import { type DesktopId, Refusal, refuse } from '@dormouse/contract'
import { Semaphore } from '@dormouse/process'
import type { FileUpload } from '../driver/guest-transport.ts'
import { before, unlessAborted } from '../mechanics/deadlines.ts'
import { noArchive } from '../scripts/file-failures.ts'
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

/**
 * What the step returns; `guest_deadline` after the timeout, and the signal's reason if that aborts. The result of a
 * step that ends later goes to `discard`.
 */
export async function fileStep<T>(
  step: Promise<T>,
  timeoutSecs: number,
  signal?: AbortSignal,
  discard: (late: T) => Promise<unknown> = async () => undefined,
): Promise<T> {
  const late = Promise.withResolvers<never>()
  const refusal = new Refusal('guest_deadline', `the guest’s file system did not answer within ${timeoutSecs} s`)
  const timer = setTimeout(() => late.reject(refusal), timeoutSecs * 1_000)
  const inTime = Promise.race([step, late.promise])
  try {
    return await (signal ? unlessAborted(inTime, signal) : inTime)
  } catch (error) {
    void step.then(discard).catch(() => undefined)
    throw error
  } finally {
    clearTimeout(timer)
  }
}

interface Running {
  abort: AbortController
  ended: Promise<unknown>
}

/** How long an earlier writer may take to end. Bytes have their places: one that takes longer harms nothing. */
const endMs = 10_000

export class Appends {
  readonly #running = new Map<string, Running>()

  /** Ends the writer, if there is one, and waits for that. */
  async end(uploadId: string): Promise<void> {
    const running = this.#running.get(uploadId)
    if (!running) return
    running.abort.abort(new Refusal('conflict', 'a later request for the same upload came in; this one was ended'))
    await before(performance.now() + endMs, running.ended)
  }

  async run<T>(uploadId: string, signal: AbortSignal, write: (signal: AbortSignal) => Promise<T>): Promise<T> {
    await this.end(uploadId)
    const abort = new AbortController()
    const writing = write(AbortSignal.any([signal, abort.signal]))
    const running = { abort, ended: writing.catch(() => undefined) }
    this.#running.set(uploadId, running)
    try {
      return await writing
    } finally {
      if (this.#running.get(uploadId) === running) this.#running.delete(uploadId)
    }
  }
}

const endBytes = 1024

/** Commits only what ends as an archive does. */
export function checkedArchive(upload: FileUpload): FileUpload {
  let zeros = 0
  return {
    write: (bytes) => {
      const tail = bytes.subarray(-endBytes)
      const last = tail.findLastIndex((byte) => byte !== 0)
      zeros = last === -1 ? zeros + tail.length : tail.length - 1 - last
      return upload.write(bytes)
    },
    commit: async () => (zeros >= endBytes ? upload.commit() : refuse('invalid_request', noArchive)),
    abandon: () => upload.abandon(),
  }
}
