// Requests under way, so that a stop can wait for them. Knows nothing of what they ask.
import type { Socket } from 'node:net'
import type { App } from './app.ts'

export class InFlightRequests {
  /** By connection: one that is closed takes all it asked along, answered or not. */
  readonly #asked = new Map<Socket, number>()
  #emptied: (() => void) | undefined

  /** Those that were not answered and whose callers are still there. */
  get count(): number {
    return [...this.#asked.values()].reduce((sum, count) => sum + count, 0)
  }

  /** Counts the requests of every scope that is registered after this. */
  watch(app: App): void {
    app.addHook('onRequest', async ({ raw: { socket } }) => {
      if (!this.#asked.has(socket)) socket.once('close', () => this.#forget(socket))
      this.#asked.set(socket, (this.#asked.get(socket) ?? 0) + 1)
    })
    app.addHook('onResponse', async ({ raw: { socket } }) => {
      const count = this.#asked.get(socket)
      if (count) this.#asked.set(socket, count - 1)
      this.#look()
    })
  }

  /** Resolves when none is under way, or when the time is over. */
  async drained(withinMs: number): Promise<void> {
    if (this.count === 0) return
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#emptied = resolve
    const timer = setTimeout(resolve, withinMs)
    await promise
    clearTimeout(timer)
  }

  #forget(socket: Socket): void {
    this.#asked.delete(socket)
    this.#look()
  }

  #look(): void {
    if (this.#emptied && this.count === 0) this.#emptied()
  }
}
