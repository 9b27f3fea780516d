// Reads of single rows, gathered: those that are asked for in the same turn of the event loop are sent as one statement. Each
// still sees everything that was committed before it was asked for. Knows no table.

interface Asked<K, V> {
  key: K
  resolve(value: V | undefined): void
  reject(error: unknown): void
}

/** A longer statement would delay the first row by more than it saves. */
const mostAtOnce = 64

export class GatheredReads<K, V> {
  readonly #read: (keys: K[]) => Promise<(V | undefined)[]>
  #asked: Asked<K, V>[] = []

  /** `read` returns the values in the order of the keys; undefined if there is none. */
  constructor(read: (keys: K[]) => Promise<(V | undefined)[]>) {
    this.#read = read
  }

  /** The value of one key. Rejects with the error of the statement that it was part of. */
  find(key: K): Promise<V | undefined> {
    if (this.#asked.length === 0) setImmediate(() => this.#send())
    const { promise, resolve, reject } = Promise.withResolvers<V | undefined>()
    this.#asked.push({ key, resolve, reject })
    return promise
  }

  #send(): void {
    const asked = this.#asked
    this.#asked = []
    for (let at = 0; at < asked.length; at += mostAtOnce) this.#answer(asked.slice(at, at + mostAtOnce))
  }

  #answer(asked: Asked<K, V>[]): void {
    this.#read(asked.map(({ key }) => key)).then(
      (values) => {
        for (const [at, { resolve }] of asked.entries()) resolve(values[at])
      },
      (error) => {
        for (const { reject } of asked) reject(error)
      },
    )
  }
}
