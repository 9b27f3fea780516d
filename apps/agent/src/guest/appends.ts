// One writer at a time for each upload: a later call for the same upload ends an earlier one, whose connection may be cut
// without anybody having noticed.
import { Refusal } from '@dormouse/contract'
import { before } from '../mechanics/deadlines.ts'

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
