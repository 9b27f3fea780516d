// The guests of this host, however they are reached.
import type { DesktopId } from '@dormouse/contract'
import type { GuestTransport } from '../driver/guest-transport.ts'

export interface Guests {
  /** The guest of a desktop, whether or not it runs. */
  guest(desktopId: DesktopId): GuestTransport
  /** Removes what the host keeps about a guest that is destroyed. */
  forget(desktopId: DesktopId): Promise<void>
  /** Closes the connections to all guests; the guests run on. */
  close(): void
}
