// What may be asked of an awake desktop's guest: commands, files, its picture.
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
  /** The command's own limit in the guest: 60 s by default, 300 s at most; whole seconds, rounded up. */
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
   * Runs a command to its end: a string in `/bin/sh -c`, an array as it is. A non-zero exit is a result, no error;
   * TimeoutError when the command was ended at its limit. Aborting stops waiting, not the command.
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

  /** Writes a file whole or not at all, 8 MiB at most; parents are made. `mode` is octal text, `0644`. */
  write(file: string, data: FileData, options?: CallOptions & { mode?: string }) {
    return this.#client.writeFile(this.#id, file, data, options)
  }

  /** Reads a file of any size, as text unless `format` says otherwise. */
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

  /** A URL that shows the desktop in a browser; ConflictError (`claim_held`) while another client holds the claim. */
  async getUrl(options: CallOptions & { claim?: StreamClaim; takeover?: boolean } = {}): Promise<Camel<StreamJson>> {
    const { claim = 'view', takeover, ...call } = options
    return camel(await this.#client.openStream(this.#id, { claim, takeover }, call))
  }
}
