// The guests of a hypervisor whose guests are reached from their host: an SSH connection per desktop, kept open with
// a channel for calls on it. The guest agent brings in what that needs.
import type { DesktopId } from '@dormouse/contract'
import type { Log } from '@dormouse/process'
import type { GuestAccess, GuestEvent, WakeNews } from '../driver/guest-access.ts'
import type { FileSystem, GuestAgent, Guests } from '../driver/guest-transport.ts'
import { QemuGuestAgent } from '../guest-agent/agent.ts'
import { GuestCalls } from '../ssh/calls.ts'
import { SshConnection, type SshConnectionOptions } from '../ssh/connection.ts'
import { SshKeys } from '../ssh/keys.ts'
import { openPort } from '../ssh/open-port.ts'
import { ChannelTransport } from '../ssh/transport.ts'
import { tellGuest } from './wake-port.ts'

interface SshAccess {
  connection: SshConnection
  calls: GuestCalls
}

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

  guest(desktopId: DesktopId): ChannelTransport {
    const access = this.#host.guestAccess(desktopId)
    const agent = new QemuGuestAgent(access.agent)
    return new ChannelTransport(this.#keptFor(desktopId, access, agent), agent)
  }

  async meet(desktopId: DesktopId): Promise<void> {
    const access = this.#host.guestAccess(desktopId)
    await this.#keptFor(desktopId, access, new QemuGuestAgent(access.agent)).connection.meet()
  }

  async tell(desktopId: DesktopId, news: WakeNews = {}): Promise<void> {
    await tellGuest(await this.#host.guestAccess(desktopId).wakeSocket(), news)
    this.guest(desktopId).connectSoon()
  }

  fileSystems(desktopId: DesktopId): Promise<FileSystem[]> {
    return new QemuGuestAgent(this.#host.guestAccess(desktopId).agent).fileSystems()
  }

  nobody(buildId: string): GuestAgent {
    return new QemuGuestAgent(this.#host.guestAccess(buildId).agent)
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
    else if (change === 'interrupted') this.#kept.get(desktopId)?.connection.interrupt()
    else if (change === 'kept') this.#rest(desktopId)
    else this.#kept.get(desktopId)?.connection.probe()
  }

  /** The channel of the calls can wait. */
  #rest(desktopId: DesktopId): void {
    const kept = this.#kept.get(desktopId)
    kept?.connection.rest(kept.calls)
  }

  /** Nothing that still uses the connection may take the port from the desktop's next process. */
  #drop(desktopId: DesktopId): void {
    this.#kept.get(desktopId)?.connection.end()
    this.#kept.delete(desktopId)
  }

  #keptFor(desktopId: DesktopId, { activity, sshSocket }: GuestAccess, agent: GuestAgent): SshAccess {
    const known = this.#kept.get(desktopId)
    if (known) return known
    const open: SshConnectionOptions['open'] = async (...how) => openPort(await sshSocket(), ...how)
    const connection = new SshConnection({ desktopId, agent, activity, open, keys: this.#keys, log: this.#log })
    const kept = { connection, calls: new GuestCalls(connection) }
    this.#kept.set(desktopId, kept)
    return kept
  }
}
