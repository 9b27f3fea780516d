// A connection into a guest on which scripts of ours are started, each on a channel of its own: over SSH, or into the namespaces of
// a simulated guest.
import type { Duplex, Readable } from 'node:stream'

/**
 * What a script reads and prints. `exit` comes with its exit code, or null and the signal's name; `close` comes last. A `close`
 * without an `exit` means that the connection was lost: the script may go on.
 */
export interface GuestChannel extends Duplex {
  readonly stderr: Readable
  /** Whatever is still in flight. */
  close(): void
}

export interface GuestConnection {
  readonly isConnected: boolean
  /** Whether one more script can start at once. */
  readonly isReady: boolean
  /** Connects if there is no connection; `guest_unavailable` if that fails. */
  connect(): Promise<void>
  /** Brings our program into the guest again. */
  meet(): Promise<unknown>
  /** Shows whether the connection still works; one that does not is closed. */
  probe(): void
  /**
   * Starts a script in root's shell, and hands its channel to `wrap` in the tick in which it opens, so that not even its end is
   * missed. A channel that opens too late goes to `late`.
   */
  openChannel<T>(script: string, wrap: (channel: GuestChannel) => T, late?: (channel: GuestChannel) => void): Promise<T>
  /** Work in the guest that no caller waits for. A guest that is unreachable does not need it; other failures are logged. */
  inBackground(work: Promise<unknown>): void
  /** Waits until little is queued on the connection. */
  sendCapacity(): Promise<void>
}
