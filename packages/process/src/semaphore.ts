// Limits on work at once: this many in all, this many of one share, one per key. Knows nothing of the work.

/** How work waits. */
export interface Wait {
  /** Ends the wait, which then rejects with its reason. */
  signal?: AbortSignal | undefined
  /** Shares take turns: those with the same one wait for each other first. */
  share?: string
  /** The longest wait, and what it rejects with then. */
  limit?: { ms: number; error(): Error }
}

/** At most `limit` at once, and at most `perShare` of one share. The others wait: within their share in their order. */
export class Semaphore {
  readonly #limit: number
  readonly #perShare: number
  #taken = 0
  readonly #takenOf = new Map<string, number>()
  /** By share. The share whose turn is next comes first. */
  readonly #queues = new Map<string, Set<() => void>>()

  constructor(limit: number, perShare = limit) {
    this.#limit = limit
    this.#perShare = perShare
  }

  get counts(): { taken: number; waiting: number } {
    const waiting = [...this.#queues.values()].reduce((sum, { size }) => sum + size, 0)
    return { taken: this.#taken, waiting }
  }

  /** How many of the share wait. */
  waiting(share: string): number {
    return this.#queues.get(share)?.size ?? 0
  }

  async run<T>(work: () => Promise<T>, wait?: Wait): Promise<T> {
    const release = await this.acquire(wait)
    try {
      return await work()
    } finally {
      release()
    }
  }

  /** Call what it resolves with once the work has ended. */
  async acquire({ signal, share = '', limit }: Wait = {}): Promise<() => void> {
    signal?.throwIfAborted()
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    // Synchronous, so that what is released in the same tick does not go to one that has left.
    const leave = (why: unknown) => {
      if (this.#leave(share, resolve)) reject(why)
    }
    const aborted = () => leave(signal?.reason)
    signal?.addEventListener('abort', aborted, { once: true })
    const timer = limit && setTimeout(() => leave(limit.error()), limit.ms)
    this.#queues.set(share, (this.#queues.get(share) ?? new Set()).add(resolve))
    this.#startNext()
    try {
      await promise
    } finally {
      clearTimeout(timer)
      signal?.removeEventListener('abort', aborted)
    }
    return this.#releaseOnce(share)
  }

  #releaseOnce(share: string): () => void {
    let isHeld = true
    return () => {
      if (!isHeld) return
      isHeld = false
      this.#count(share, -1)
      this.#startNext()
    }
  }

  /** Whether it waited still. */
  #leave(share: string, begin: () => void): boolean {
    const queue = this.#queues.get(share)
    if (!queue?.delete(begin)) return false
    if (queue.size === 0) this.#queues.delete(share)
    return true
  }

  #startNext(): void {
    for (const [share, queue] of [...this.#queues]) {
      if (this.#taken >= this.#limit) return
      if ((this.#takenOf.get(share) ?? 0) >= this.#perShare) continue
      this.#count(share, 1)
      // Its next turn comes after those of all others.
      this.#queues.delete(share)
      const [begin] = queue
      queue.delete(begin!)
      if (queue.size > 0) this.#queues.set(share, queue)
      begin!()
    }
  }

  #count(share: string, change: 1 | -1): void {
    this.#taken += change
    const now = (this.#takenOf.get(share) ?? 0) + change
    if (now > 0) this.#takenOf.set(share, now)
    else this.#takenOf.delete(share)
  }
}

/** One at a time per key, in the order of the calls. */
export class KeyedMutex {
  readonly #semaphore = new Semaphore(Number.POSITIVE_INFINITY, 1)

  run<T>(key: string, work: () => Promise<T>): Promise<T> {
    return this.#semaphore.run(work, { share: key })
  }
}
