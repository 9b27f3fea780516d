// A guest over a connection that starts our scripts in it. Its agent says whether it is alive, and sets its clock.

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
import type { GuestConnection } from '../driver/guest-connection.ts'
import type {
  ChooseRange,
  EntriesRequest,
  FileDownload,
  FileUpload,
  Following,
  GuestAgent,
  GuestCall,
  GuestTransport,
  RangeDownload,
  UploadAppend,
} from '../driver/guest-transport.ts'
import { openArchiveOverSsh, unpackOverSsh } from './archives.ts'
import type { GuestCalls } from './calls.ts'
import { changeEntry, listEntries } from './entries.ts'
import { runCommand } from './exec.ts'
import { openOverSsh, uploadOverSsh } from './files.ts'
import { appendOverSsh, uploadStep } from './uploads.ts'

export interface ChannelAccess {
  connection: GuestConnection
  calls: GuestCalls
}

export class ChannelTransport implements GuestTransport {
  readonly #connection: GuestConnection
  readonly #calls: GuestCalls
  readonly #agent: GuestAgent

  constructor({ connection, calls }: ChannelAccess, agent: GuestAgent) {
    this.#connection = connection
    this.#calls = calls
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

  exec(command: ExecCommand, deadline?: number): Promise<ExecResult> {
    return runCommand(this.#calls, command, deadline)
  }

  call(call: GuestCall, how?: { repeats?: boolean }): Promise<Buffer> {
    return this.#calls.call(call, how)
  }

  follow(call: GuestCall, onPart: (part: Buffer) => void): Promise<Following> {
    return this.#calls.follow(call, onPart)
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
    return unpackOverSsh(await this.#connected(), this.#calls, { path, owner })
  }

  uploadStep(command: UploadCommand): Promise<UploadResult> {
    return uploadStep(this.#calls, command)
  }

  async appendUpload(upload: Pick<UploadCommand, 'path' | 'uploadId'>, offset: number): Promise<UploadAppend> {
    return appendOverSsh(await this.#connected(), upload, offset)
  }

  listEntries(request: EntriesRequest): Promise<ListEntriesResult> {
    return listEntries(this.#calls, request)
  }

  changeEntry(change: EntryChange, timeoutSecs: number): Promise<GuestEntry | null> {
    return changeEntry(this.#calls, change, timeoutSecs)
  }

  /** The connection, ready for one more command. */
  async #connected(): Promise<GuestConnection> {
    if (this.#connection.isReady) return this.#connection
    await this.#connection.connect()
    this.#calls.prepare()
    if (this.#connection.isReady) return this.#connection
    return refuse('guest_unavailable', 'the guest runs as many commands at once as its SSH server takes')
  }
}
