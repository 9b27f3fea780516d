// A guest through QEMU's guest agent, which takes one call at a time. It is the only transport of images that have no SSH
// server, and stands in for SSH if there is no connection.
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
import { z } from 'zod'
import { type AgentCall, AgentRefused } from '../driver/guest-access.ts'
import {
  type ChooseRange,
  deadlineOf,
  type EntriesRequest,
  type FileDownload,
  type FileUpload,
  type GuestTransport,
  type RangeDownload,
  type UploadAppend,
} from '../driver/guest-transport.ts'
import { changeThroughAgent, listThroughAgent } from './entries.ts'
import { execThroughAgent } from './exec.ts'
import { openRangeThroughAgent, openThroughAgent, uploadThroughAgent } from './files.ts'
import { asUnavailable, parseAnswer } from './programs.ts'
import { appendThroughAgent, uploadStepThroughAgent } from './uploads.ts'

const clockToleranceMs = 1_000

export class GuestAgentTransport implements GuestTransport {
  readonly #call: AgentCall

  constructor(call: AgentCall) {
    this.#call = call
  }

  async ping(): Promise<void> {
    await this.#call('guest-ping')
  }

  /** Sets the clock to the millisecond. A guest whose clock cannot be set but is right is accepted. */
  async setTime(): Promise<void> {
    try {
      await this.#call('guest-set-time', { time: Date.now() * 1_000_000 })
    } catch (error) {
      if (!(error instanceof AgentRefused) || !(await this.#clockIsRight())) throw asUnavailable(error)
    }
  }

  exec(command: ExecCommand, deadline = deadlineOf(command)): Promise<ExecResult> {
    return execThroughAgent(this.#call, command, deadline)
  }

  /** The guest agent has no streams. */
  async converse(): Promise<undefined> {
    return undefined
  }

  createFile(path: string, mode: number | null, owner?: string | null): Promise<FileUpload> {
    return uploadThroughAgent(this.#call, { path, mode, owner })
  }

  openFile(path: string): Promise<FileDownload> {
    return openThroughAgent(this.#call, path)
  }

  openRange(path: string, choose: ChooseRange): Promise<RangeDownload> {
    return openRangeThroughAgent(this.#call, path, choose)
  }

  /** The guest agent has no streams. */
  async openArchive(): Promise<never> {
    return refuse('guest_unavailable', 'folders are copied over SSH, which the guest does not answer')
  }

  createArchive(): Promise<never> {
    return this.openArchive()
  }

  uploadStep(command: UploadCommand): Promise<UploadResult> {
    return uploadStepThroughAgent(this.#call, command)
  }

  appendUpload(upload: Pick<UploadCommand, 'path' | 'uploadId'>, offset: number): Promise<UploadAppend> {
    return appendThroughAgent(this.#call, upload, offset)
  }

  listEntries(request: EntriesRequest): Promise<ListEntriesResult> {
    return listThroughAgent(this.#call, request)
  }

  changeEntry(change: EntryChange, timeoutSecs: number): Promise<GuestEntry | null> {
    return changeThroughAgent(this.#call, change, timeoutSecs)
  }

  async #clockIsRight(): Promise<boolean> {
    const guestNs = parseAnswer(z.number(), await this.#call('guest-get-time'))
    return Math.abs(guestNs / 1_000_000 - Date.now()) < clockToleranceMs
  }
}
