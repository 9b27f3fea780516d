// Limits on work at once: one per key, or so many in all. Knows nothing of the work.

/** Runs one piece of work at a time per key, in the order of the calls. */
export class KeyedLock {
  readonly #tails = new Map<string, Promise<unknown>>()

  async run<T>(key: string, work: () => Promise<T>): Promise<T> {
    const mine = (this.#tails.get(key) ?? Promise.resolve()).then(work)
    const tail = mine.catch(() => undefined)
    this.#tails.set(key, tail)
    try {
      return await mine
    } finally {
      if (this.#tails.get(key) === tail) this.#tails.delete(key)
    }
  }
}

/**
 * Runs at most `limit` pieces of work at once; the others queue, and leave the queue when their signal aborts. Work may name a share:
 * shares take turns, and at most `perShare` pieces of one run at once.
 */
export class Slots {
  readonly #limit: number
  readonly #perShare: number
  #running = 0
  readonly #runningOf = new Map<string, number>()
  /** By share. The share whose turn is next comes first. */
  readonly #queues = new Map<string, (() => void)[]>()

  constructor(limit: number, perShare = limit) {
    this.#limit = limit
    this.#perShare = perShare
  }

  async run<T>(signal: AbortSignal, work: () => Promise<T>, share = ''): Promise<T> {
    await this.#take(signal, share)
    try {
      return await work()
    } finally {
      this.#count(share, -1)
      this.#startNext()
    }
  }

  /** How many of the share wait. */
  waiting(share: string): number {
    return this.#queues.get(share)?.length ?? 0
  }

  async #take(signal: AbortSignal, share: string): Promise<void> {
    signal.throwIfAborted()
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const queue = this.#queues.get(share) ?? []
    const leave = () => {
      const place = queue.indexOf(resolve)
      if (place < 0) return
      queue.splice(place, 1)
      if (queue.length === 0 && this.#queues.get(share) === queue) this.#queues.delete(share)
      reject(signal.reason)
    }
    queue.push(resolve)
    this.#queues.set(share, queue)
    signal.addEventListener('abort', leave, { once: true })
    this.#startNext()
    await promise
    signal.removeEventListener('abort', leave)
  }

  #startNext(): void {
    for (const [share, queue] of [...this.#queues]) {
      if (this.#running >= this.#limit) return
      if ((this.#runningOf.get(share) ?? 0) >= this.#perShare) continue
      this.#count(share, 1)
      this.#queues.delete(share)
      const start = queue.shift()!
      if (queue.length > 0) this.#queues.set(share, queue)
      start()
    }
  }

  #count(share: string, change: 1 | -1): void {
    this.#running += change
    const now = (this.#runningOf.get(share) ?? 0) + change
    if (now > 0) this.#runningOf.set(share, now)
    else this.#runningOf.delete(share)
  }
}
