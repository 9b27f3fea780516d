// A guest over its SSH connection, with the guest agent beside it: the agent starts things (readiness, clock, keys) and
// stands in where there is no connection. What may have been begun over one is never begun again over the other.
import type { ExecCommand, ExecResult } from '@dormouse/contract'
import type { FileDownload, FileUpload, GuestTransport } from '../driver/guest-transport.ts'
import { begunBefore, deadlineOf } from '../mechanics/deadlines.ts'
import { patienceMs, type SshLine } from '../ssh/connection.ts'
import { execOverSsh } from '../ssh/exec.ts'
import { openOverSsh, uploadOverSsh } from '../ssh/files.ts'
import type { SpareShell } from '../ssh/warm-shell.ts'

export class SshTransport implements GuestTransport {
  readonly #line: SshLine
  readonly #spare: SpareShell
  readonly #agent: GuestTransport

  constructor({ line, spare }: { line: SshLine; spare: SpareShell }, agent: GuestTransport) {
    this.#line = line
    this.#spare = spare
    this.#agent = agent
  }

  ping(): Promise<void> {
    return this.#agent.ping()
  }

  /** The guest is up: the connection is dialled, and nobody waits for it. */
  async setTime(): Promise<void> {
    await this.#agent.setTime()
    void this.#connected()
  }

  async exec(command: ExecCommand, signal: AbortSignal, deadline = deadlineOf(command)): Promise<ExecResult> {
    const connected = await begunBefore(deadline, this.#connected(), async () => undefined)
    if (!connected) return this.#agent.exec(command, signal, deadline)
    return execOverSsh(this.#line, command, this.#spare, deadline)
  }

  async createFile(path: string, mode: number | null): Promise<FileUpload> {
    return (await this.#connected()) ? uploadOverSsh(this.#line, path, mode) : this.#agent.createFile(path, mode)
  }

  async openFile(path: string): Promise<FileDownload> {
    return (await this.#connected()) ? openOverSsh(this.#line, path) : this.#agent.openFile(path)
  }

  /** Whether there is a connection, or comes one soon. */
  async #connected(): Promise<boolean> {
    if (this.#line.ready) return true
    const { hopeless } = this.#line
    const dialled = this.#line.connect().then(
      () => {
        this.#spare.prepare()
        return this.#line.ready
      },
      () => false,
    )
    if (hopeless) return false
    const late = Promise.withResolvers<false>()
    const timer = setTimeout(() => late.resolve(false), patienceMs)
    return Promise.race([dialled, late.promise]).finally(() => clearTimeout(timer))
  }
}
