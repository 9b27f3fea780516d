/**
 * One daemon: its node, domains, storage and networks, and its events. Events have a connection of their own, which is renewed
 * forever; every other call opens its lane on demand.
 */
import { EventEmitter } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { type CallObserver, Calls, type LaneName } from './calls.ts'
import { type Address, Connection } from './connection.ts'
import { compareCpuFlag, cpuCompareResult } from './constants.ts'
import type { Domain } from './domain.ts'
import { Domains } from './domains.ts'
import { GuestAgent } from './guest-agent.ts'
import { type HostEvent, readEvent } from './host-event.ts'
import type { LaneSize } from './lane.ts'
import { IncomingMigration, type MigrationRoute, OutgoingMigration } from './managed-migration.ts'
import { Networks } from './network.ts'
import { events, type Result } from './protocol.ts'
import { Pools } from './storage.ts'
import type { XdrReader } from './xdr.ts'

export interface Log {
  info(facts: object, message: string): void
  warn(facts: object, message: string): void
}

export type HostOptions = Address & {
  /** Which driver; default `qemu:///system`. */
  uri?: string
  log?: Log
  /** Lane sizes that differ from `laneSizes`. */
  lanes?: Partial<Record<LaneName, LaneSize>>
  /** Interval of keepalives to a silent daemon; after five without a response the connection closes. Default 5 s. */
  keepaliveMs?: number
  /** How long opening one connection may take. Default 10 s. */
  openTimeoutMs?: number
  /** Wraps each call, from its request to its answer, with its wait for a connection. */
  observeCall?: CallObserver | undefined
}

export interface NodeInfo {
  model: string
  memoryKiB: number
  cpus: number
  mhz: number
  nodes: number
  sockets: number
  cores: number
  threads: number
}

const firstRetryMs = 100
const lastRetryMs = 2_000

export class LibvirtHost extends EventEmitter<{ event: [HostEvent]; up: []; down: [Error] }> {
  readonly domains: Domains
  readonly storage: { readonly pools: Pools }
  readonly networks: Networks
  /** Any procedure of the table, for what has no method here. */
  readonly calls: Calls
  readonly #options: HostOptions
  readonly #closing = new AbortController()
  #events: Connection | undefined

  private constructor(options: HostOptions) {
    super()
    this.#options = options
    this.calls = new Calls({ ...this.#connectionOptions(), lanes: options.lanes, observeCall: options.observeCall })
    this.domains = new Domains(this.calls)
    this.storage = { pools: new Pools(this.calls) }
    this.networks = new Networks(this.calls)
  }

  /** Connects and subscribes to events, or rejects. Once open, it reconnects forever. */
  static async open(options: HostOptions): Promise<LibvirtHost> {
    const host = new LibvirtHost(options)
    await host.#subscribe()
    return host
  }

  /** Whether events arrive. Calls can be made at any time; while the daemon is unreachable they fail as not sent. */
  get isUp(): boolean {
    return this.#events !== undefined
  }

  /** The guest agent of one domain. */
  guestAgent(domain: Domain): GuestAgent {
    return new GuestAgent(this.calls, domain)
  }

  /** The hypervisor's version, as 1,000,000 × major + 1,000 × minor + release. */
  async version(): Promise<number> {
    return Number((await this.calls.call('control', 'connectGetVersion', {})).version)
  }

  /** The daemon's own version, in the same form. */
  async libraryVersion(): Promise<number> {
    return Number((await this.calls.call('control', 'connectGetLibVersion', {})).version)
  }

  async nodeInfo(): Promise<NodeInfo> {
    const info: Result<'nodeGetInfo'> = await this.calls.call('control', 'nodeGetInfo', {})
    return { ...info, memoryKiB: Number(info.memoryKiB) }
  }

  /** The XML of the host's capabilities. The first call after an upgrade may take seconds. */
  async capabilities(): Promise<string> {
    return (await this.calls.call('operations', 'connectGetCapabilities', {})).xml
  }

  /** The XML of what a domain of that kind can have on this host. */
  async domainCapabilities(
    kind: { emulator?: string; arch?: string; machine?: string; virtType?: string } = {},
  ): Promise<string> {
    const { emulator, arch, machine, virtType } = kind
    const args = { emulator, arch, machine, virtType, flags: 0 }
    return (await this.calls.call('operations', 'connectGetDomainCapabilities', args)).xml
  }

  /**
   * Compares a CPU's XML with what a domain of that kind can have on this host. Rejects with `cpuIncompatible`, and the
   * missing features, unless this host has all of it.
   */
  async requireCpu(
    cpu: string,
    kind: { emulator?: string; arch?: string; machine?: string; virtType?: string } = {},
  ): Promise<'identical' | 'superset'> {
    const { emulator, arch, machine, virtType } = kind
    const args = { emulator, arch, machine, virtType, cpu, flags: compareCpuFlag.failIncompatible }
    const { result } = await this.calls.call('operations', 'connectCompareHypervisorCPU', args)
    return result === cpuCompareResult.identical ? 'identical' : 'superset'
  }

  /** The source's side of a migration whose calls the caller makes, on a connection of its own. */
  async openOutgoing(domain: { uuid: string; name: string }, route: MigrationRoute): Promise<OutgoingMigration> {
    return new OutgoingMigration(await Connection.open(this.#connectionOptions()), domain, route)
  }

  /** The destination's side. */
  async openIncoming(route: MigrationRoute): Promise<IncomingMigration> {
    return new IncomingMigration(await Connection.open(this.#connectionOptions()), route)
  }

  /** Closes every connection. Pending calls settle as lost, but the daemon goes on with them. */
  close(): void {
    this.#closing.abort()
    this.#events?.close()
    this.calls.close()
  }

  [Symbol.dispose](): void {
    this.close()
  }

  #connectionOptions() {
    const { uri = 'qemu:///system', keepaliveMs = 5_000, openTimeoutMs = 10_000 } = this.#options
    return { address: this.#options, uri, keepaliveMs, openTimeoutMs }
  }

  async #subscribe(): Promise<void> {
    let usable = false
    const connection = await Connection.open({
      ...this.#connectionOptions(),
      onEvent: (procedure, body) => this.#onEvent(procedure, body),
      onClose: (reason) => usable && this.#onDown(reason),
    })
    try {
      const register = ({ event }: { event: number }) =>
        connection.call('connectDomainEventCallbackRegisterAny', { event, domain: undefined })
      await Promise.all(Object.values(events).map(register))
      if (this.#closing.signal.aborted) throw new Error('closed by us')
    } catch (error) {
      connection.close()
      throw error
    }
    usable = true
    this.#events = connection
  }

  /** Listeners run in their own microtask: an error of a listener must not close the connection. */
  #onEvent(procedure: number, body: XdrReader): void {
    const event = readEvent(procedure, body)
    if (event) queueMicrotask(() => this.emit('event', event))
  }

  #onDown(reason: Error): void {
    this.#events = undefined
    if (this.#closing.signal.aborted) return
    this.#options.log?.warn({ reason: reason.message }, 'libvirt connection lost')
    queueMicrotask(() => this.emit('down', reason))
    void this.#renew()
  }

  async #renew(): Promise<void> {
    const { signal } = this.#closing
    for (let waitMs = firstRetryMs; !signal.aborted; waitMs = Math.min(waitMs * 2, lastRetryMs)) {
      try {
        await this.#subscribe()
        break
      } catch (error) {
        if (signal.aborted) return
        this.#options.log?.info({ reason: (error as Error).message, waitMs }, 'libvirt is still unreachable')
        await sleep(waitMs, undefined, { signal }).catch(() => {})
      }
    }
    if (signal.aborted) return
    this.#options.log?.info({}, 'libvirt connection renewed')
    this.emit('up')
    this.emit('event', { type: 'gap' })
  }
}
