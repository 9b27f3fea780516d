// What was read of a file or folder, read again only when that has changed. For files that rarely change and are often looked at.
import { statSync } from 'node:fs'

interface Version {
  ino: number
  size: number
  ctimeMs: number
}

export class ReadIfChanged<T> {
  readonly #read: (path: string) => T
  #known: { version: Version; value: T } | undefined

  constructor(read: (path: string) => T) {
    this.#read = read
  }

  /** Undefined if there is no such file. A change within a few milliseconds of the one before may go unnoticed. */
  at(path: string): T | undefined {
    // Before the content: a change after it is noticed the next time.
    const version = statSync(path, { throwIfNoEntry: false })
    if (!version) {
      this.#known = undefined
      return undefined
    }
    if (this.#known && isSame(this.#known.version, version)) return this.#known.value
    const { ino, size, ctimeMs } = version
    const value = this.#read(path)
    this.#known = { version: { ino, size, ctimeMs }, value }
    return value
  }

  /** It is read the next time in any case. */
  forget(): void {
    this.#known = undefined
  }
}

const isSame = (a: Version, b: Version) => a.ctimeMs === b.ctimeMs && a.size === b.size && a.ino === b.ino
