// How the agent talks to a guest, whatever carries the words.
import type { ExecCommand, ExecResult } from '@dormouse/contract'

export interface GuestTransport {
  /** Returns when the guest has answered; throws `guest_unavailable` otherwise, within about a second. */
  ping(): Promise<void>
  /** Sets the guest's clock to the host's. */
  setTime(): Promise<void>
  /** Runs a command to its end, or to its deadline (`guest_deadline`). */
  exec(command: ExecCommand, signal: AbortSignal): Promise<ExecResult>
}
