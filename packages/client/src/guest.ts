// Commands, files and the screen of an awake desktop.
import type { ChangeEntryBody, EntryJson, ExecJson, StreamClaim, StreamJson } from '@dormouse/contract'
import type { FileData, FilePart, ReadFormat, ReadResults } from './bodies.ts'
import { type Camel, camel } from './camel.ts'
import type { Client, PartOptions } from './client.ts'
import type { CallOptions } from './http.ts'

export type CommandResult = Camel<ExecJson>
export type Entry = Camel<EntryJson>

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

  /** Reads part of a file as a stream: see `FilePart`. */
  readPart(file: string, options: PartOptions): Promise<FilePart> {
    return this.#client.readFilePart(this.#id, file, options)
  }

  /** The entries below a folder, in byte order of their paths, read page by page; `depth` levels of them, 1 by default. */
  async *list(
    folder: string,
    options: CallOptions & { depth?: number; pageSize?: number } = {},
  ): AsyncGenerator<Entry, void, undefined> {
    const { depth, pageSize: limit, ...call } = options
    let cursor: string | undefined
    do {
      const page = await this.#client.listEntries(this.#id, { path: folder, depth, limit, cursor }, call)
      for (const entry of page.entries) yield camel(entry)
      cursor = page.next_cursor ?? undefined
    } while (cursor !== undefined)
  }

  /** The entry of a path; of a link, the link's own. NotFoundError where there is none. */
  async stat(file: string, options?: CallOptions): Promise<Entry> {
    const { entries } = await this.#client.listEntries(this.#id, { path: file, depth: 0 }, options)
    return camel(entries[0]!)
  }

  /** Creates a folder with its parents; one that exists is left as it is, unless `parents` is false. */
  mkdir(folder: string, options: CallOptions & { parents?: boolean; mode?: string } = {}): Promise<Entry> {
    const { parents, mode, ...call } = options
    return this.#changed({ action: 'mkdir', path: folder, parents, mode }, call)
  }

  /** Moves or renames. ConflictError (`file_exists`) where something has that name, unless `overwrite` is true. */
  move(from: string, to: string, options: CallOptions & { overwrite?: boolean } = {}): Promise<Entry> {
    const { overwrite, ...call } = options
    return this.#changed({ action: 'move', path: from, to, overwrite }, call)
  }

  /** Copies a file or, with `recursive`, a folder, with modes and owners. */
  copy(
    from: string,
    to: string,
    options: CallOptions & { overwrite?: boolean; recursive?: boolean } = {},
  ): Promise<Entry> {
    const { overwrite, recursive, ...call } = options
    return this.#changed({ action: 'copy', path: from, to, overwrite, recursive }, call)
  }

  /** Removes a file, a link or, with `recursive`, a folder that is not empty. */
  async remove(file: string, options: CallOptions & { recursive?: boolean } = {}): Promise<void> {
    const { recursive, ...call } = options
    await this.#client.changeEntry(this.#id, { action: 'remove', path: file, recursive }, call)
  }

  /** Changes the mode, octal text such as `0755`; with `recursive` of everything below, too. */
  chmod(file: string, mode: string, options: CallOptions & { recursive?: boolean } = {}): Promise<Entry> {
    const { recursive, ...call } = options
    return this.#changed({ action: 'chmod', path: file, mode, recursive }, call)
  }

  async #changed(body: ChangeEntryBody, call: CallOptions): Promise<Entry> {
    const { entry } = await this.#client.changeEntry(this.#id, body, call)
    return camel(entry!)
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
