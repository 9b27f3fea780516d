// A shell that is begun in a guest before anybody needs it: to begin one is most of what a short command costs there. It
// serves one command, and ends with its connection. Knows nothing of what it is told.
import { spareScript } from '../scripts/exec.ts'
import type { SshLine } from './connection.ts'
import { Run } from './remote-command.ts'

/** Where one command follows another at once, the guest has better to do. */
const calmMs = 10

export class SpareShell {
  readonly #line: SshLine
  #run: Run | undefined
  #underWay = 0
  #timer: NodeJS.Timeout | undefined
  #beginning = false

  constructor(line: SshLine) {
    this.#line = line
  }

  /** Whether one waits, as far as is known here. */
  get waits(): boolean {
    return this.#run?.open ?? false
  }

  /** The shell, for good, where one waits. */
  take(): Run | undefined {
    const run = this.waits ? this.#run : undefined
    this.#run = undefined
    return run
  }

  /** While a command is under way no other shell is begun; after the last one it is. */
  during(): Disposable {
    this.#underWay++
    clearTimeout(this.#timer)
    return {
      [Symbol.dispose]: () => {
        this.#underWay--
        this.prepare()
      },
    }
  }

  /** Begins a shell soon, unless one waits or a command comes first. */
  prepare(): void {
    clearTimeout(this.#timer)
    if (this.#underWay === 0) this.#timer = setTimeout(() => this.#line.aside(this.#begin()), calmMs).unref()
  }

  async #begin(): Promise<void> {
    if (this.waits || this.#beginning || !this.#line.ready) return
    this.#beginning = true
    try {
      // Without one a command begins its own.
      this.#run = await Run.begin(this.#line, spareScript())
    } finally {
      this.#beginning = false
    }
  }
}
