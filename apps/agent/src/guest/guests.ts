// The guests of this host, however they are reached.
import type { DesktopId } from '@dormouse/contract'
import type { WakeNews } from '../driver/guest-access.ts'
import type { GuestTransport } from '../driver/guest-transport.ts'

export interface Guests {
  /** The guest of a desktop, whether or not it runs. */
  guest(desktopId: DesktopId): GuestTransport
  /**
   * Tells a guest whose memory was restored the time, new randomness and the news. Returns whether it has a program for that;
   * throws `guest_unavailable` if that does not answer in time or fails. It may be told again.
   */
  tell(desktopId: DesktopId, news?: WakeNews): Promise<boolean>
  /** The guest of a template, by its agent alone: the host keeps nothing about it. */
  nobody(buildId: string): GuestTransport
  /** Makes the keys of a guest that begins with a template: the files with which it and this host know each other. */
  introduce(desktopId: DesktopId): Promise<WakeNews['files']>
  /** Removes what the host keeps about a guest that is destroyed. */
  forget(desktopId: DesktopId): Promise<void>
  /** Closes the connections to all guests; the guests run on. */
  close(): void
}
