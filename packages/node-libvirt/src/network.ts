/** Virtual networks. */
import type { Calls } from './calls.ts'
import { isLibvirtError } from './errors.ts'
import type { NetworkRef } from './protocol.ts'

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

  async xml(): Promise<string> {
    return (await this.#calls.call('control', 'networkGetXMLDesc', { network: this.ref, flags: 0 })).xml
  }

  /** The name of its bridge device on the host. */
  async bridgeName(): Promise<string> {
    return (await this.#calls.call('control', 'networkGetBridgeName', { network: this.ref })).bridge
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

  /** The network of that name, or undefined where there is none. */
  lookup(name: string): Promise<Network | undefined> {
    return this.#found(this.#calls.call('control', 'networkLookupByName', { name }))
  }

  /** The network of that UUID, or undefined where there is none. */
  lookupByUuid(uuid: string): Promise<Network | undefined> {
    return this.#found(this.#calls.call('control', 'networkLookupByUUID', { uuid }))
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
