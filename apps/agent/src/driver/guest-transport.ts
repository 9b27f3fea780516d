// How the agent talks to a guest, whatever carries the words.
import type { ExecCommand, ExecResult } from '@dormouse/contract'

export interface GuestTransport {
  /** Returns when the guest has answered; throws `guest_unavailable` otherwise, within about a second. */
  ping(): Promise<void>
  /** Sets the guest's clock to the host's. */
  setTime(): Promise<void>
  /** Runs a command to its end, or to its deadline (`guest_deadline`), which counts from now unless it is given. */
  exec(command: ExecCommand, signal: AbortSignal, deadline?: number): Promise<ExecResult>
  /** Begins a file beside the one it shall replace; what the guest's file system refuses is refused here already. */
  createFile(path: string, mode: number | null): Promise<FileUpload>
  /** Opens a regular file. */
  openFile(path: string): Promise<FileDownload>
}

/** A file that nobody sees under its name before it is whole. One call at a time. */
export interface FileUpload {
  write(bytes: Buffer): Promise<void>
  /** Puts it in place, as large as what was written; answers that size. */
  commit(): Promise<number>
  /** Takes it away as if it had never begun. A guest that cannot be reached does so by itself, later. */
  abandon(): Promise<void>
}

export interface FileDownload {
  /** The next piece; undefined at the end. */
  read(): Promise<Buffer | undefined>
  /** May be called at any time, and again. */
  close(): Promise<void>
}
