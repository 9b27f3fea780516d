// Counts requests in flight, so that a stop can wait for them.
import type { Socket } from 'node:net'
import type { App } from './app.ts'

export class InFlightRequests {
  /** By connection: closing one ends all its requests. */
  readonly #bySocket = new Map<Socket, number>()
  #emptied: (() => void) | undefined

  /** Requests without a response whose connection is open. */
  get count(): number {
    return [...this.#bySocket.values()].reduce((sum, count) => sum + count, 0)
  }

  /** Counts the requests of every scope that is registered after this. */
  watch(app: App): void {
    app.addHook('onRequest', ({ raw: { socket } }, _reply, done) => {
      const count = this.#bySocket.get(socket)
      if (count === undefined) socket.once('close', () => this.#forget(socket))
      this.#bySocket.set(socket, (count ?? 0) + 1)
      done()
    })
    app.addHook('onResponse', ({ raw: { socket } }, _reply, done) => {
      const count = this.#bySocket.get(socket)
      if (count) this.#bySocket.set(socket, count - 1)
      this.#check()
      done()
    })
  }

  /** Resolves when there are none, or at the timeout. */
  async drained(withinMs: number): Promise<void> {
    if (this.count === 0) return
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#emptied = resolve
    const timer = setTimeout(resolve, withinMs)
    await promise
    clearTimeout(timer)
  }

  #forget(socket: Socket): void {
    this.#bySocket.delete(socket)
    this.#check()
  }

  #check(): void {
    if (this.#emptied && this.count === 0) this.#emptied()
  }
}
