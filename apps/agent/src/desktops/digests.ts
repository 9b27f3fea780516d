// Computes the digest of each saved memory after its hibernation, one at a time and in the background.
import type { DesktopId } from '@dormouse/contract'
import { Semaphore } from '@dormouse/process'
import type { MemoryImages } from './memory-images.ts'

/** Made once: an error for each stop would cost more than a small digest. */
const stopped = new Error('the digest is not wanted any more')

export class Digests {
  readonly #memory: MemoryImages
  readonly #failed: (error: unknown) => void
  readonly #one = new Semaphore(1)
  readonly #running = new Map<DesktopId, { stop: AbortController; ended: Promise<void> }>()

  constructor(memory: MemoryImages, failed: (error: unknown) => void) {
    this.#memory = memory
    this.#failed = failed
  }

  /** Begins, and returns at once. */
  begin(desktopId: DesktopId, file: string): void {
    const stop = new AbortController()
    const ended = this.#one
      .run(() => this.#memory.recordDigest(desktopId, file, stop.signal), { signal: stop.signal })
      .catch((error: unknown) => {
        if (!stop.signal.aborted) this.#failed(error)
      })
    const mine = { stop, ended }
    this.#running.set(desktopId, mine)
    void ended.then(() => {
      if (this.#running.get(desktopId) === mine) this.#running.delete(desktopId)
    })
  }

  /** When this returns, nothing writes to the desktop's manifests any more. */
  async stop(desktopId: DesktopId): Promise<void> {
    const running = this.#running.get(desktopId)
    this.#running.delete(desktopId)
    running?.stop.abort(stopped)
    await running?.ended
  }

  /** Resolves when every digest that was begun has ended. */
  async settled(): Promise<void> {
    await Promise.all([...this.#running.values()].map(({ ended }) => ended))
  }

  async close(): Promise<void> {
    await Promise.all([...this.#running.keys()].map((desktopId) => this.stop(desktopId)))
  }
}
