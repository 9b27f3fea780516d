// Commands, files and the screen of an awake desktop.
import type { ExecJson, StreamClaim, StreamJson } from '@dormouse/contract'
import type { FileData, ReadFormat, ReadResults } from './bodies.ts'
import { type Camel, camel } from './camel.ts'
import type { Client } from './client.ts'
import type { CallOptions } from './http.ts'

export type CommandResult = Camel<ExecJson>

export interface RunOptions {
  cwd?: string
  envs?: Record<string, string>
  stdin?: string
  /** The command's timeout in the guest: 60 s by default, at most 300 s; rounded up to whole seconds. */
  timeoutMs?: number
  signal?: AbortSignal
}

export class Commands {
  readonly #client: Client
  readonly #id: string

  constructor(client: Client, id: string) {
    this.#client = client
    this.#id = id
  }

  /**
   * Runs a command: a string in `/bin/sh -c`, an array without a shell. A non-zero exit code is a result, not an error.
   * Throws TimeoutError if the command reached its timeout. Aborting stops the wait, not the command.
   */
  async run(command: string | string[], options: RunOptions = {}): Promise<CommandResult> {
    const { cwd, envs, stdin, timeoutMs, signal } = options
    const timeout_secs = timeoutMs === undefined ? undefined : Math.max(1, Math.ceil(timeoutMs / 1000))
    return camel(await this.#client.exec(this.#id, { command, cwd, env: envs, stdin, timeout_secs }, { signal }))
  }
}

export class Files {
  readonly #client: Client
  readonly #id: string

  constructor(client: Client, id: string) {
    this.#client = client
    this.#id = id
  }

  /** Writes a file of at most 8 MiB, atomically; creates parent folders. `mode` is octal text, such as `0644`. */
  write(file: string, data: FileData, options?: CallOptions & { mode?: string }) {
    return this.#client.writeFile(this.#id, file, data, options)
  }

  /** Reads a file of any size; as text by default. */
  read<F extends ReadFormat = 'text'>(
    file: string,
    options: CallOptions & { format?: F } = {},
  ): Promise<ReadResults[F]> {
    return this.#client.readFile<F>(this.#id, file, { ...options, format: options.format ?? ('text' as F) })
  }
}

export class Stream {
  readonly #client: Client
  readonly #id: string

  constructor(client: Client, id: string) {
    this.#client = client
    this.#id = id
  }

  /** A URL that shows the desktop in a browser. ConflictError (`claim_held`) while another client holds the claim. */
  async getUrl(options: CallOptions & { claim?: StreamClaim; takeover?: boolean } = {}): Promise<Camel<StreamJson>> {
    const { claim = 'view', takeover, ...call } = options
    return camel(await this.#client.openStream(this.#id, { claim, takeover }, call))
  }
}
