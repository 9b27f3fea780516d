// The guests of this host, however they are reached.
import type { DesktopId } from '@dormouse/contract'
import type { WakeNews } from '../driver/guest-access.ts'
import type { GuestAgent, GuestTransport } from '../driver/guest-transport.ts'

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
  /** The agent of a template's guest: the host keeps nothing about it. */
  nobody(buildId: string): GuestAgent
  /** Makes the keys of a guest that begins with a template: the files with which it and this host know each other. */
  introduce(desktopId: DesktopId): Promise<WakeNews['files']>
  /** Removes what the host keeps about a guest that is destroyed. */
  forget(desktopId: DesktopId): Promise<void>
  /** Closes the connections to all guests; the guests run on. */
  close(): void
}
