// A guest over its SSH connection, or through its guest agent if there is none. The agent also sets the clock and
// exchanges the SSH keys. What one transport may have started is never started again over the other.
import type {
  EntryChange,
  ExecCommand,
  ExecResult,
  GuestEntry,
  ListEntriesResult,
  UploadCommand,
  UploadResult,
} from '@dormouse/contract'
import {
  type ChooseRange,
  type Conversation,
  type ConversationListener,
  deadlineOf,
  type EntriesRequest,
  type FileDownload,
  type FileUpload,
  type GuestTransport,
  type RangeDownload,
  type UploadAppend,
} from '../driver/guest-transport.ts'
import { before } from '../mechanics/deadlines.ts'
import { startedTooLate } from '../scripts/exec-result.ts'
import { sshLimits } from '../scripts/limits.ts'
import { openArchiveOverSsh, unpackOverSsh } from '../ssh/archives.ts'
import type { SshConnection } from '../ssh/connection.ts'
import { converseOverSsh } from '../ssh/conversation.ts'
import { changeOverSsh, listOverSsh } from '../ssh/entries.ts'
import { execOverSsh } from '../ssh/exec.ts'
import { openOverSsh, openRangeOverSsh, uploadOverSsh } from '../ssh/files.ts'
import { appendOverSsh, uploadStepOverSsh } from '../ssh/uploads.ts'
import type { WarmShell } from '../ssh/warm-shell.ts'

export interface SshAccess {
  connection: SshConnection
  warmShell: WarmShell
}

export class SshFirstTransport implements GuestTransport {
  readonly #connection: SshConnection
  readonly #warmShell: WarmShell
  readonly #agent: GuestTransport

  constructor({ connection, warmShell }: SshAccess, agent: GuestTransport) {
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
    void this.#isConnectedSoon()
  }

  async exec(command: ExecCommand, deadline = deadlineOf(command)): Promise<ExecResult> {
    const isConnected = await before(deadline, this.#isConnectedSoon())
    if (isConnected === undefined) throw startedTooLate()
    if (!isConnected) return this.#agent.exec(command, deadline)
    return execOverSsh(this.#connection, command, this.#warmShell, deadline)
  }

  async converse(script: string, listener: ConversationListener): Promise<Conversation | undefined> {
    return this.#connection.isReady ? converseOverSsh(this.#connection, script, listener) : undefined
  }

  async createFile(path: string, mode: number | null, owner?: string | null): Promise<FileUpload> {
    const isConnected = await this.#isConnectedSoon()
    if (!isConnected) return this.#agent.createFile(path, mode, owner)
    return uploadOverSsh(this.#connection, path, mode, owner)
  }

  async openFile(path: string): Promise<FileDownload> {
    return (await this.#isConnectedSoon()) ? openOverSsh(this.#connection, path) : this.#agent.openFile(path)
  }

  async openRange(path: string, choose: ChooseRange): Promise<RangeDownload> {
    const isConnected = await this.#isConnectedSoon()
    return isConnected ? openRangeOverSsh(this.#connection, path, choose) : this.#agent.openRange(path, choose)
  }

  async openArchive(path: string): Promise<FileDownload> {
    const isConnected = await this.#isConnectedSoon()
    return isConnected ? openArchiveOverSsh(this.#connection, path) : this.#agent.openArchive(path)
  }

  async createArchive(path: string, owner: string | null): Promise<FileUpload> {
    const isConnected = await this.#isConnectedSoon()
    return isConnected ? unpackOverSsh(this.#connection, { path, owner }) : this.#agent.createArchive(path, owner)
  }

  async uploadStep(command: UploadCommand): Promise<UploadResult> {
    const isConnected = await this.#isConnectedSoon()
    return isConnected ? uploadStepOverSsh(this.#connection, command) : this.#agent.uploadStep(command)
  }

  async appendUpload(upload: Pick<UploadCommand, 'path' | 'uploadId'>, offset: number): Promise<UploadAppend> {
    const isConnected = await this.#isConnectedSoon()
    return isConnected ? appendOverSsh(this.#connection, upload, offset) : this.#agent.appendUpload(upload, offset)
  }

  async listEntries(request: EntriesRequest): Promise<ListEntriesResult> {
    const isConnected = await this.#isConnectedSoon()
    return isConnected ? listOverSsh(this.#connection, request) : this.#agent.listEntries(request)
  }

  async changeEntry(change: EntryChange, timeoutSecs: number): Promise<GuestEntry | null> {
    const isConnected = await this.#isConnectedSoon()
    if (!isConnected) return this.#agent.changeEntry(change, timeoutSecs)
    return changeOverSsh(this.#connection, change, timeoutSecs)
  }

  /** Whether the connection is ready, or becomes so while waiting is worth it. It is opened either way. */
  async #isConnectedSoon(): Promise<boolean> {
    if (this.#connection.isReady) return true
    const { isSlow } = this.#connection
    const connecting = this.#connection.connect().then(
      () => {
        this.#warmShell.prepare()
        return this.#connection.isReady
      },
      () => false,
    )
    if (isSlow) return false
    return (await before(performance.now() + sshLimits.connectWaitMs, connecting)) ?? false
  }
}
