/** Virtual networks, and the filters against forged traffic on them. */
import type { Calls } from './calls.ts'
import { networkAffect, networkSection, networkUpdateCommand } from './constants.ts'
import { isLibvirtError } from './errors.ts'
import type { NetworkRef } from './protocol.ts'

/** A reserved DHCP address. */
export interface DhcpHost {
  mac: string
  ip: string
}

/** A DHCP lease. An IPv6 client may not have sent its MAC address. */
export interface DhcpLease {
  mac: string | undefined
  ip: string
}

/** Older daemons read two arguments of an update in the other order. */
const updateSince = 7_002_000

/** A network, by its UUID. */
export class Network {
  readonly #calls: Calls
  readonly name: string
  readonly uuid: string

  constructor(calls: Calls, { name, uuid }: NetworkRef) {
    this.#calls = calls
    this.name = name
    this.uuid = uuid
  }

  get ref(): NetworkRef {
    return { name: this.name, uuid: this.uuid }
  }

  /** Starts it. */
  async create(): Promise<void> {
    await this.#calls.call('operations', 'networkCreate', { network: this.ref }, { turn: this.uuid })
  }

  /** Stops it. */
  async destroy(): Promise<void> {
    await this.#calls.call('operations', 'networkDestroy', { network: this.ref }, { turn: this.uuid })
  }

  async undefine(): Promise<void> {
    await this.#calls.call('operations', 'networkUndefine', { network: this.ref }, { turn: this.uuid })
  }

  async setAutostart(autostart: boolean): Promise<void> {
    await this.#calls.call('operations', 'networkSetAutostart', { network: this.ref, autostart }, { turn: this.uuid })
  }

  /** Reserves an address for a machine, now and after a restart. Needs libvirt 7.2 and a running network. */
  async addDhcpHost(host: DhcpHost): Promise<void> {
    await this.#update(networkUpdateCommand.addLast, host)
  }

  /** Lets go of the address that was kept for that machine. */
  async removeDhcpHost(host: DhcpHost): Promise<void> {
    await this.#update(networkUpdateCommand.delete, host)
  }

  /** The addresses that machines have on lease now, also those of machines that are gone. */
  async leases(): Promise<DhcpLease[]> {
    const args = { network: this.ref, mac: undefined, wantResults: 1, flags: 0 }
    const { leases } = await this.#calls.call('control', 'networkGetDHCPLeases', args)
    return leases.map(({ mac, ip }) => ({ mac, ip }))
  }

  async xml(): Promise<string> {
    return (await this.#calls.call('control', 'networkGetXMLDesc', { network: this.ref, flags: 0 })).xml
  }

  /** The name of its bridge device on the host. */
  async bridgeName(): Promise<string> {
    return (await this.#calls.call('control', 'networkGetBridgeName', { network: this.ref })).bridge
  }

  async #update(command: number, { mac, ip }: DhcpHost): Promise<void> {
    const { version } = await this.#calls.call('control', 'connectGetLibVersion', {})
    if (version < updateSince) throw new Error('changing a running network needs libvirt 7.2 or newer')
    const args = {
      network: this.ref,
      command,
      section: networkSection.ipDhcpHost,
      parentIndex: -1,
      xml: `<host mac='${mac}' ip='${ip}'/>`,
      flags: networkAffect.live | networkAffect.config,
    }
    await this.#calls.call('operations', 'networkUpdate', args, { turn: this.uuid })
  }
}

/** The networks of one host. */
export class Networks {
  readonly #calls: Calls

  constructor(calls: Calls) {
    this.#calls = calls
  }

  async list(flags = 0): Promise<Network[]> {
    const { networks } = await this.#calls.call('control', 'connectListAllNetworks', { wantResults: 1, flags })
    return networks.map((network) => new Network(this.#calls, network))
  }

  /** The network with that name, or undefined if there is none. */
  lookup(name: string): Promise<Network | undefined> {
    return this.#found(this.#calls.call('control', 'networkLookupByName', { name }))
  }

  /** Whether the daemon supports filters and has one with that name. */
  async hasFilter(name: string): Promise<boolean> {
    try {
      await this.#calls.call('control', 'nwfilterLookupByName', { name })
      return true
    } catch (error) {
      if (isLibvirtError(error, 'noNwfilter', 'noSupport')) return false
      throw error
    }
  }

  async define(xml: string): Promise<Network> {
    return new Network(this.#calls, (await this.#calls.call('control', 'networkDefineXML', { xml })).network)
  }

  async #found(answer: Promise<{ network: NetworkRef }>): Promise<Network | undefined> {
    try {
      return new Network(this.#calls, (await answer).network)
    } catch (error) {
      if (isLibvirtError(error, 'noNetwork')) return undefined
      throw error
    }
  }
}
