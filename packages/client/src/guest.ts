// Commands, files and the screen of an awake desktop.
import type {
  ChangeEntryBody,
  ChangeJson,
  CreatedFileUrlJson,
  EntryJson,
  ExecStream,
  FileUrlJson,
  FileUrlMethod,
  StreamClaim,
  StreamJson,
  UploadJson,
} from '@dormouse/contract'
import type { ArchiveOptions } from './archives.ts'
import type { FileData, FilePart, ReadFormat, ReadResults } from './bodies.ts'
import { type Camel, camel } from './camel.ts'
import type { Client, PartOptions } from './client.ts'
import { type ConnectExecOptions, Exec, type ExecState, type StartOptions } from './exec.ts'
import type { CallOptions } from './http.ts'
import { checkMode, type NamesOf, refuseUnknown, wholeSeconds } from './options.ts'
import type { RunJson } from './run.ts'
import { type Inspect, inspect, showFields } from './shown-fields.ts'
import type { UploadData, UploadOptions } from './uploads.ts'
import type { WatchOptions } from './watches.ts'
import type { WriteOptions } from './write-file.ts'

export type CommandResult = Camel<RunJson>
export type Entry = Camel<EntryJson>
export type FileChange = Camel<ChangeJson>
export type FileUrl = Camel<FileUrlJson>

export interface FileUrlOptions extends CallOptions {
  /** `GET` by default. */
  method?: FileUrlMethod
  /** The largest file that is transferred. By default 8 MiB for `PUT`, and no limit for `GET`. */
  maxBytes?: number
  /** It works once. */
  once?: boolean
  /** An hour by default, 24 hours at most; rounded up to whole seconds. */
  expiresMs?: number
}

export interface RunOptions {
  cwd?: string
  envs?: Record<string, string>
  stdin?: string
  /** It is killed after this long awake: 60 s by default, as long as you like; rounded up to whole seconds. */
  timeoutMs?: number
  signal?: AbortSignal
  /** `allow` wakes a desktop that is asleep, `never` does not; by default its `wakeOn` decides. */
  wake?: CallOptions['wake']
  /** Called with the output as it comes. The result has all of it up to 1 MiB of each stream, above that the beginning and the end. */
  onStdout?: (text: string) => void
  onStderr?: (text: string) => void
}

const runNames: NamesOf<RunOptions> = {
  ...{ cwd: true, envs: true, stdin: true, timeoutMs: true, signal: true, wake: true, onStdout: true, onStderr: true },
}

export class Commands {
  readonly #client: Client
  readonly #id: string

  constructor(client: Client, id: string) {
    this.#client = client
    this.#id = id
  }

  [inspect](_depth: number, options: unknown, inspectValue?: Inspect) {
    return showFields('Commands', { desktopId: this.#id }, options, inspectValue)
  }

  /**
   * Runs a command: a string in `/bin/sh -c`, an array without a shell. A non-zero exit code is a result, not an error. Goes on over
   * lost connections and sleeps. Throws TimeoutError if the command reached its timeout. Aborting kills the command.
   */
  async run(command: string | string[], options: RunOptions = {}): Promise<CommandResult> {
    refuseUnknown('run', options, runNames)
    const { cwd, envs: env, stdin, timeoutMs = defaultTimeoutMs, signal, wake, ...tell } = options
    const timeout_secs = wholeSeconds('timeoutMs', timeoutMs)
    const listeners = {
      stdout: tell.onStdout && new TextListener(tell.onStdout),
      stderr: tell.onStderr && new TextListener(tell.onStderr),
    }
    const onOutput = (stream: ExecStream, bytes: Uint8Array) => listeners[stream]?.add(bytes)
    const body = { command, cwd, env, timeout_secs }
    const ended = await this.#client.execs.run(this.#id, body, { stdin, signal, wake, onOutput })
    for (const listener of [listeners.stdout, listeners.stderr]) listener?.end()
    return camel(ended)
  }

  /** Starts a command that lasts: it outlives this program, lost connections and hibernation. Starts once, also with retries. */
  start(command: string | string[], options: StartOptions = {}): Promise<Exec> {
    return Exec.start(this.#client, this.#id, command, options)
  }

  /** A command that was started before, also by another program. */
  connect(execId: string, options: ConnectExecOptions = {}): Promise<Exec> {
    return Exec.connect(this.#client, this.#id, execId, options)
  }

  /** The commands that run, and those that have ended and are kept; newest first. */
  async list(options?: CallOptions): Promise<ExecState[]> {
    return (await this.#client.execs.list(this.#id, options)).execs.map((exec) => camel(exec))
  }
}

const defaultTimeoutMs = 60_000

/** Gets text of whole characters. */
class TextListener {
  readonly #decoder = new TextDecoder()
  readonly #tell: (text: string) => void

  constructor(tell: (text: string) => void) {
    this.#tell = tell
  }

  add(bytes: Uint8Array): void {
    const text = this.#decoder.decode(bytes, { stream: true })
    if (text) this.#tell(text)
  }

  end(): void {
    const rest = this.#decoder.decode()
    if (rest) this.#tell(rest)
  }
}

export class Files {
  readonly #client: Client
  readonly #id: string

  constructor(client: Client, id: string) {
    this.#client = client
    this.#id = id
  }

  [inspect](_depth: number, options: unknown, inspectValue?: Inspect) {
    return showFields('Files', { desktopId: this.#id }, options, inspectValue)
  }

  /** Writes a file of any size, atomically; creates parent folders. What is new belongs to the owner of its folder. */
  write(file: string, data: FileData, options?: WriteOptions) {
    return this.#client.writeFile(this.#id, file, data, options)
  }

  /**
   * Writes a file of any size: in pieces, continued after interruptions, and placed whole at the end. In Node,
   * `fs.openAsBlob(name)` makes the data of a file.
   */
  async upload(file: string, data: UploadData, options?: UploadOptions): Promise<Camel<UploadJson>> {
    return camel(await this.#client.upload(this.#id, file, data, options))
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

  /** A folder as a tar archive: a stream, which fails if not all of it has come. */
  readArchive(folder: string, options?: CallOptions): Promise<ReadableStream<Uint8Array>> {
    return this.#client.readArchive(this.#id, folder, options)
  }

  /** Unpacks a tar archive into a folder, once all of it has come. In a folder that is there, entries are added or replaced. */
  writeArchive(folder: string, archive: FileData, options?: ArchiveOptions) {
    return this.#client.writeArchive(this.#id, folder, archive, options)
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

  /** The entry of a path; of a link, the link's own. NotFoundError if there is none. */
  async stat(file: string, options?: CallOptions): Promise<Entry> {
    const { entries } = await this.#client.listEntries(this.#id, { path: file, depth: 0 }, options)
    return camel(entries[0]!)
  }

  /** A URL that reads the file, or writes it, without a credential: to hand on. Whoever has it can use it. */
  async url(file: string, options: FileUrlOptions = {}): Promise<Camel<CreatedFileUrlJson>> {
    const { method = 'GET', maxBytes: max_bytes, once, expiresMs, ...call } = options
    const expires_in_secs = wholeSeconds('expiresMs', expiresMs)
    return camel(
      await this.#client.fileUrls.create(this.#id, { path: file, method, max_bytes, once, expires_in_secs }, call),
    )
  }

  /** The URLs that were made, without their tokens: active ones, then the newest. */
  async urls(options?: CallOptions): Promise<FileUrl[]> {
    return (await this.#client.fileUrls.list(this.#id, options)).file_urls.map((one) => camel(one))
  }

  /** Ends a URL, and cuts its transfers in progress. */
  revokeUrl(id: string, options?: CallOptions): Promise<void> {
    return this.#client.fileUrls.revoke(this.#id, id, options)
  }

  /**
   * What changes in a folder from now on, until the signal is aborted or the loop is left; with `recursive` also below it. Goes
   * on after lost connections and sleeps. A change of type `overflow` means that some may be missing: list the folder again.
   */
  async *watch(folder: string, options?: WatchOptions): AsyncGenerator<FileChange, void, undefined> {
    for await (const change of this.#client.watches.follow(this.#id, folder, options)) yield camel(change)
  }

  /** Creates a folder with its parents; one that exists is left as it is, unless `parents` is false. */
  mkdir(
    folder: string,
    options: CallOptions & { parents?: boolean; mode?: string; owner?: string } = {},
  ): Promise<Entry> {
    const { parents, mode, owner, ...call } = options
    checkMode(mode)
    return this.#changed({ action: 'mkdir', path: folder, parents, mode, owner }, call)
  }

  /** Moves or renames. ConflictError (`file_exists`) if something has that name, unless `overwrite` is true. */
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
    checkMode(mode)
    return this.#changed({ action: 'chmod', path: file, mode, recursive }, call)
  }

  async #changed(body: ChangeEntryBody, call: CallOptions): Promise<Entry> {
    const { entry } = await this.#client.changeEntry(this.#id, body, call)
    return camel(entry!)
  }
}

export class Clipboard {
  readonly #client: Client
  readonly #id: string

  constructor(client: Client, id: string) {
    this.#client = client
    this.#id = id
  }

  [inspect](_depth: number, options: unknown, inspectValue?: Inspect) {
    return showFields('Clipboard', { desktopId: this.#id }, options, inspectValue)
  }

  /** The text that was copied last; null if none was copied since the service follows the clipboard. */
  async read(options?: CallOptions): Promise<string | null> {
    return (await this.#client.readClipboard(this.#id, options)).text
  }

  /** The guest's programs paste this text until something else is copied, or the desktop sleeps. */
  async write(text: string, { takeover, ...call }: CallOptions & { takeover?: boolean } = {}): Promise<void> {
    await this.#client.writeClipboard(this.#id, { text, takeover }, call)
  }
}

export class Stream {
  readonly #client: Client
  readonly #id: string

  constructor(client: Client, id: string) {
    this.#client = client
    this.#id = id
  }

  [inspect](_depth: number, options: unknown, inspectValue?: Inspect) {
    return showFields('Stream', { desktopId: this.#id }, options, inspectValue)
  }

  /** A URL that shows the desktop in a browser. ConflictError (`claim_held`) while another client holds the claim. */
  async getUrl(options: CallOptions & { claim?: StreamClaim; takeover?: boolean } = {}): Promise<Camel<StreamJson>> {
    const { claim = 'view', takeover, ...call } = options
    return camel(await this.#client.openStream(this.#id, { claim, takeover }, call))
  }
}
