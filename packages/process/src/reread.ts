// Files that are read again when they change, without a restart: certificates, keys, authorities. If the new contents cannot be
// used, those before them stay in use, and the log and a metric say so.
import { statSync } from 'node:fs'
import type { Log } from './log.ts'

export interface RereadOptions<T> {
  /** For the log and the metric. */
  name: string
  files: readonly string[]
  /** What was read at the start. */
  initial: T
  /** Reads them; throws if they cannot be used. */
  load(): T
}

export class Reread<T> {
  readonly #options: RereadOptions<T>
  current: T
  /** The files have changed, and cannot be used. */
  isOutdated = false
  #seen: string

  constructor(options: RereadOptions<T>) {
    this.#options = options
    this.current = options.initial
    this.#seen = this.#signature()
  }

  get name(): string {
    return this.#options.name
  }

  /** Reads the files if they have changed, or anyway. A change during that is found by the next look. */
  look(log: Log, anyway: boolean): void {
    const seen = this.#signature()
    if (seen === this.#seen && !anyway) return
    this.#seen = seen
    const { name, files, load } = this.#options
    try {
      this.current = load()
      this.isOutdated = false
      log.info({ what: name, files }, 'files were read again')
    } catch (error) {
      this.isOutdated = true
      const why = error instanceof Error ? error.message : String(error)
      log.error({ what: name, files, why }, 'changed files cannot be used; what was read before them stays in use')
    }
  }

  #signature(): string {
    return this.#options.files
      .map((file) => statSync(file, { throwIfNoEntry: false }))
      .map((found) => (found ? `${found.ino} ${found.size} ${found.mtimeMs}` : 'missing'))
      .join()
  }
}

const all = new Set<Reread<unknown>>()

/** From now on the files are looked at. */
export function reread<T>(options: RereadOptions<T>): Reread<T> {
  const one = new Reread(options)
  all.add(one)
  return one
}

/** Looks at all files; `anyway` reads also those that look unchanged. */
export function lookAgain(log: Log, anyway = false): void {
  for (const one of all) one.look(log, anyway)
}

/** For the metric: 1 for each whose files cannot be used. */
export const outdatedFiles = (): Map<string, number> =>
  new Map([...all].map(({ name, isOutdated }) => [name, isOutdated ? 1 : 0]))
