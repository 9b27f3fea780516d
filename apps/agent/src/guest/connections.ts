// The guests of a hypervisor whose guests are reached from their host: an SSH connection per desktop, kept open with a
// warm shell on it, and the guest agent beside it.
import type { DesktopId } from '@dormouse/contract'
import type { Log } from '@dormouse/process'
import type { GuestAccess, GuestEvent, WakeNews } from '../driver/guest-access.ts'
import type { GuestTransport } from '../driver/guest-transport.ts'
import { GuestAgentTransport } from '../guest-agent/transport.ts'
import { SshConnection } from '../ssh/connection.ts'
import { SshKeys } from '../ssh/keys.ts'
import { WarmShell } from '../ssh/warm-shell.ts'
import type { Guests } from './guests.ts'
import { type SshAccess, SshFirstTransport } from './ssh-first.ts'
import { tellGuest } from './wake-port.ts'

/** The hypervisor's side: raw connections, and what happens to guests. */
interface GuestHost {
  guestAccess(desktopId: DesktopId): GuestAccess
  listen(listener: (event: GuestEvent | { type: 'domain' | 'gap' }) => void): void
}

export class GuestConnections implements Guests {
  readonly #host: GuestHost
  readonly #keys: SshKeys
  readonly #log: Log
  readonly #kept = new Map<DesktopId, SshAccess>()

  constructor(host: GuestHost, keysDir: string, log: Log) {
    this.#host = host
    this.#keys = new SshKeys(keysDir)
    this.#log = log
    host.listen((event) => event.type === 'guest' && this.#heard(event))
  }

  guest(desktopId: DesktopId): SshFirstTransport {
    const access = this.#host.guestAccess(desktopId)
    const agent = new GuestAgentTransport(access.agent)
    return new SshFirstTransport(this.#kept.get(desktopId) ?? this.#keep(desktopId, access, agent), agent)
  }

  async tell(desktopId: DesktopId, news: WakeNews = {}): Promise<boolean> {
    const path = await this.#host.guestAccess(desktopId).wakeSocket()
    if (path === undefined) return false
    await tellGuest(path, news)
    this.guest(desktopId).connectSoon()
    return true
  }

  nobody(buildId: string): GuestTransport {
    return new GuestAgentTransport(this.#host.guestAccess(buildId).agent)
  }

  introduce(desktopId: DesktopId): Promise<WakeNews['files']> {
    return this.#keys.introduce(desktopId)
  }

  async forget(desktopId: DesktopId): Promise<void> {
    this.#drop(desktopId)
    await this.#keys.forget(desktopId)
  }

  close(): void {
    for (const { connection } of this.#kept.values()) connection.end()
  }

  #heard({ desktopId, change }: GuestEvent): void {
    if (change === 'killed') this.#drop(desktopId)
    else if (change === 'interrupted') this.#kept.get(desktopId)?.connection.close()
    else if (change === 'kept') this.#rest(desktopId)
    else this.#kept.get(desktopId)?.connection.probe()
  }

  /** A shell that waits for a command can wait on. */
  #rest(desktopId: DesktopId): void {
    const kept = this.#kept.get(desktopId)
    kept?.connection.rest(kept.warmShell)
  }

  /** Nothing that still uses the connection may take the port from the desktop's next process. */
  #drop(desktopId: DesktopId): void {
    this.#kept.get(desktopId)?.connection.end()
    this.#kept.delete(desktopId)
  }

  #keep(desktopId: DesktopId, { activity, sshAddress: address }: GuestAccess, agent: GuestTransport) {
    const connection = new SshConnection({ desktopId, agent, activity, address, keys: this.#keys, log: this.#log })
    const kept = { connection, warmShell: new WarmShell(connection) }
    this.#kept.set(desktopId, kept)
    return kept
  }
}
