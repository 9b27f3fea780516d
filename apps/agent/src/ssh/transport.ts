// A guest over its SSH connection. Its agent says whether it is alive, and sets its clock.
import {
  type EntryChange,
  type ExecCommand,
  type ExecResult,
  type GuestEntry,
  type ListEntriesResult,
  refuse,
  type UploadCommand,
  type UploadResult,
} from '@dormouse/contract'
import {
  type ChooseRange,
  type Conversation,
  type ConversationListener,
  deadlineOf,
  type EntriesRequest,
  type FileDownload,
  type FileUpload,
  type GuestAgent,
  type GuestTransport,
  type RangeDownload,
  type UploadAppend,
} from '../driver/guest-transport.ts'
import { before } from '../mechanics/deadlines.ts'
import { startedTooLate } from '../scripts/exec-result.ts'
import { openArchiveOverSsh, unpackOverSsh } from './archives.ts'
import type { SshConnection } from './connection.ts'
import { converseOverSsh } from './conversation.ts'
import { changeOverSsh, listOverSsh } from './entries.ts'
import { execOverSsh } from './exec.ts'
import { openOverSsh, uploadOverSsh } from './files.ts'
import { appendOverSsh, uploadStepOverSsh } from './uploads.ts'
import type { WarmShell } from './warm-shell.ts'

export interface SshAccess {
  connection: SshConnection
  warmShell: WarmShell
}

export class SshTransport implements GuestTransport {
  readonly #connection: SshConnection
  readonly #warmShell: WarmShell
  readonly #agent: GuestAgent

  constructor({ connection, warmShell }: SshAccess, agent: GuestAgent) {
    this.#connection = connection
    this.#warmShell = warmShell
    this.#agent = agent
  }

  ping(): Promise<void> {
    return this.#agent.ping()
  }

  async setTime(): Promise<void> {
    await this.#agent.setTime()
    this.connectSoon()
  }

  /** The guest is up: the connection is opened in the background; one that has rested shows whether it still works. */
  connectSoon(): void {
    this.#connection.probe()
    this.#connection.inBackground(this.#connected())
  }

  async bringIn(): Promise<void> {
    await this.#connection.meet()
  }

  async exec(command: ExecCommand, deadline = deadlineOf(command)): Promise<ExecResult> {
    const connection = await before(deadline, this.#connected())
    if (!connection) throw startedTooLate()
    return execOverSsh(connection, command, this.#warmShell, deadline)
  }

  async converse(script: string, listener: ConversationListener): Promise<Conversation | undefined> {
    return this.#connection.isReady ? converseOverSsh(this.#connection, script, listener) : undefined
  }

  async createFile(path: string, mode: number | null, owner?: string | null): Promise<FileUpload> {
    return uploadOverSsh(await this.#connected(), path, mode, owner)
  }

  async openFile(path: string, choose: ChooseRange): Promise<RangeDownload> {
    return openOverSsh(await this.#connected(), path, choose)
  }

  async openArchive(path: string): Promise<FileDownload> {
    return openArchiveOverSsh(await this.#connected(), path)
  }

  async createArchive(path: string, owner: string | null): Promise<FileUpload> {
    return unpackOverSsh(await this.#connected(), { path, owner })
  }

  async uploadStep(command: UploadCommand): Promise<UploadResult> {
    return uploadStepOverSsh(await this.#connected(), command)
  }

  async appendUpload(upload: Pick<UploadCommand, 'path' | 'uploadId'>, offset: number): Promise<UploadAppend> {
    return appendOverSsh(await this.#connected(), upload, offset)
  }

  async listEntries(request: EntriesRequest): Promise<ListEntriesResult> {
    return listOverSsh(await this.#connected(), request)
  }

  async changeEntry(change: EntryChange, timeoutSecs: number): Promise<GuestEntry | null> {
    return changeOverSsh(await this.#connected(), change, timeoutSecs)
  }

  /** The connection, ready for one more command. */
  async #connected(): Promise<SshConnection> {
    if (this.#connection.isReady) return this.#connection
    await this.#connection.connect()
    this.#warmShell.prepare()
    if (this.#connection.isReady) return this.#connection
    return refuse('guest_unavailable', 'the guest runs as many commands at once as its SSH server takes')
  }
}
