// A shell that is started in a guest before it is needed: starting one is most of the time that a short command takes there.
// It serves one command, and ends with its connection.
import { warmShellScript } from '../scripts/command.ts'
import type { SshConnection } from './connection.ts'
import { RemoteCommand } from './remote-command.ts'

/** Not started sooner after a command: often another command follows at once. */
const idleMs = 10

export class WarmShell {
  readonly #connection: SshConnection
  #shell: RemoteCommand | undefined
  #commandsInFlight = 0
  #timer: NodeJS.Timeout | undefined
  #isStarting = false

  constructor(connection: SshConnection) {
    this.#connection = connection
  }

  /** Whether a shell waits for a command, as far as this host knows. */
  get isReady(): boolean {
    return this.#shell?.acceptsInput ?? false
  }

  /** Channels without a command: of a shell that waits, or is being started. */
  get idleChannels(): number {
    return this.isReady || this.#isStarting ? 1 : 0
  }

  /** Hands the shell over, if one is ready. */
  take(): RemoteCommand | undefined {
    const shell = this.isReady ? this.#shell : undefined
    this.#shell = undefined
    return shell
  }

  /** No shell is started while a command is in flight; after the last one it is. */
  pause(): Disposable {
    this.#commandsInFlight++
    clearTimeout(this.#timer)
    return {
      [Symbol.dispose]: () => {
        this.#commandsInFlight--
        this.prepare()
      },
    }
  }

  /** Starts a shell soon, unless one is ready or a command comes first. */
  prepare(): void {
    clearTimeout(this.#timer)
    if (this.#commandsInFlight > 0) return
    this.#timer = setTimeout(() => this.#connection.inBackground(this.#start()), idleMs).unref()
  }

  async #start(): Promise<void> {
    if (this.isReady || this.#isStarting || !this.#connection.isReady) return
    this.#isStarting = true
    try {
      this.#shell = await RemoteCommand.start(this.#connection, warmShellScript())
    } finally {
      this.#isStarting = false
    }
  }
}
