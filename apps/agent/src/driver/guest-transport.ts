// What can be done in a guest, and which guests a host has.
import {
  type DesktopId,
  type EntryChange,
  type ExecCommand,
  type ExecResult,
  type GuestEntry,
  type ListEntriesResult,
  type RangeHead,
  Refusal,
  type UploadCommand,
  type UploadResult,
} from '@dormouse/contract'
import type { WakeNews } from './guest-access.ts'

/** The guest was lost while a command ran: it may go on there. */
export class CommandLost extends Refusal {
  constructor(detail: string) {
    super('guest_unavailable', detail)
  }
}

/** What a guest's agent is for: it shows that the guest is alive, sets its clock, and brings in what the rest needs. */
export interface GuestAgent {
  /** Returns when the guest has answered; throws `guest_unavailable` otherwise, within about a second. */
  ping(): Promise<void>
  /** Sets the guest's clock to the host's. */
  setTime(): Promise<void>
  /** Runs a script of ours to its end, or throws `guest_deadline`. Script and input have at most 56 KiB as JSON. */
  run(script: string, timeoutSecs: number, input?: Buffer): Promise<ProgramEnd>
}

/** One that the guest's programs can write to. */
export interface FileSystem {
  path: string
  totalBytes: number
  /** What programs that are not root's can still write. */
  freeBytes: number
}

/** How a program ended, and what it printed. */
export interface ProgramEnd {
  exitCode: number | undefined
  signal: number | undefined
  stdout: Buffer
  stderr: Buffer
}

export interface GuestTransport extends Pick<GuestAgent, 'ping' | 'setTime'> {
  /** Runs a command to its end, or to its deadline (`guest_deadline`): `deadlineOf(command)` unless one is given. */
  exec(command: ExecCommand, deadline?: number): Promise<ExecResult>
  /** The answer of our program in the guest. A call is made again if its connection is lost, unless it may not be repeated. */
  call(call: GuestCall, how?: { repeats?: boolean }): Promise<Buffer>
  /** An operation that answers part by part, until it ends. */
  follow(call: GuestCall, onPart: (part: Buffer) => void): Promise<Following>
  /** Starts writing a file under a temporary name. Throws what the guest's file system refuses already here. */
  createFile(path: string, mode: number | null, owner?: string | null): Promise<FileUpload>
  /** Opens a regular file, or part of it. */
  openFile(path: string, choose: ChooseRange): Promise<RangeDownload>
  /** Opens a tar archive of a folder, which the guest makes as it is read. */
  openArchive(path: string): Promise<FileDownload>
  /** Starts unpacking a tar archive that becomes the folder, or is merged into it. Nothing is in its place before the end. */
  createArchive(path: string, owner: string | null): Promise<FileUpload>
  /** Prepares, measures, places or drops an upload. */
  uploadStep(command: UploadCommand): Promise<UploadResult>
  /** Opens an upload's temporary file at its end; `upload_offset` if that is not the offset. */
  appendUpload(upload: Pick<UploadCommand, 'path' | 'uploadId'>, offset: number): Promise<UploadAppend>
  /** A page of the entries of a folder. */
  listEntries(request: EntriesRequest): Promise<ListEntriesResult>
  /** Makes the change, or has the guest end it after the timeout. Returns the entry; null if it was removed. */
  changeEntry(change: EntryChange, timeoutSecs: number): Promise<GuestEntry | null>
}

export interface GuestCall {
  /** The folder of its records, the operation, and its arguments. */
  words: readonly (string | number)[]
  input?: string | Buffer | undefined
  /** The guest ends it after so long. */
  timeoutSecs: number
  /** It is not sent later than this, on the clock of `performance.now()`: `guest_deadline`. */
  notAfter?: number
}

export interface Following {
  /** What other calls name it by. */
  tag: number
  ended: Promise<unknown>
  /** A call over the same connection. */
  ask(call: GuestCall): Promise<Buffer>
}

/** Chooses the part to read, now that the file's size and version are known; null for none. */
export type ChooseRange = (file: { size: number; version: string }) => RangeHead['sent']

export const wholeFile: ChooseRange = ({ size }) => ({ first: 0, length: size })

export interface RangeDownload extends FileDownload {
  head: RangeHead
}

export interface EntriesRequest {
  /** Absolute. */
  path: string
  /** How many levels below it; 0 is the path itself. */
  depth: number
  /** The bytes of the last path of the page before, in base64url. */
  after: string | null
  limit: number
}

/** A file, or a folder from an archive, that is visible under its name only once it is whole. One call at a time. */
export interface FileUpload {
  write(bytes: Buffer): Promise<void>
  /** Moves it into place and returns the size of all that was written. */
  commit(): Promise<number>
  /** Removes what is unfinished. A guest that is unreachable removes it by itself, later. */
  abandon(): Promise<void>
}

/** Part of an upload. One call at a time. What was written stays, whether it is finished or closed. */
export interface UploadAppend {
  write(bytes: Buffer): Promise<void>
  /** Returns when the guest's file system has taken everything. */
  finish(): Promise<void>
  close(): void
}

export interface FileDownload {
  /** The next bytes; undefined at the end. */
  read(): Promise<Buffer | undefined>
  /** May be called at any time, and repeatedly. */
  close(): Promise<void>
}

/** The deadline of a command that starts now, on the clock of `performance.now()`. */
export const deadlineOf = ({ timeoutSecs }: Pick<ExecCommand, 'timeoutSecs'>): number =>
  performance.now() + timeoutSecs * 1_000

export interface Guests {
  /** The guest of a desktop, whether or not it runs. */
  guest(desktopId: DesktopId): GuestTransport
  /** Brings our program and keys into a guest that has booted. `image_unsuited` if its image cannot have them. */
  meet(desktopId: DesktopId): Promise<void>
  /**
   * Tells a guest whose memory was restored the time, new randomness and the news. Throws `guest_unavailable` if our program in it
   * does not answer in time or fails. It may be told again.
   */
  tell(desktopId: DesktopId, news?: WakeNews): Promise<void>
  /** The file systems of a running guest. */
  fileSystems(desktopId: DesktopId): Promise<FileSystem[]>
  /** The agent of a template's guest: the host keeps nothing about it. */
  nobody(buildId: string): GuestAgent
  /** Makes the keys of a guest that begins with a template: the files with which it and this host know each other. */
  introduce(desktopId: DesktopId): Promise<WakeNews['files']>
  /** Removes what the host keeps about a guest that is destroyed. */
  forget(desktopId: DesktopId): Promise<void>
  /** Closes the connections to all guests; the guests run on. */
  close(): void
}
