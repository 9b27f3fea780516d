// The guests' network on this host: which desktop has which address. libvirt keeps the list (an address for each desktop, until
// it is destroyed), hands the addresses out by DHCP and filters each guest to its own; it is never read from a guest. No
// desktop joins the network while its firewall is down.
import { type DesktopId, Refusal, refuse } from '@dormouse/contract'
import type { Network } from '@dormouse/node-libvirt'
import { orRefuse } from './failures.ts'
import type { Firewall } from './firewall.ts'
import type { GuestLimit, GuestLimits } from './guest-limits.ts'
import {
  addressCount,
  guestAddress,
  hasInterface,
  macOf,
  type Nic,
  readHosts,
  readNic,
  readSubnet,
  withAddress,
} from './network-xml.ts'

/** What this file uses of libvirt's network. */
type DhcpNetwork = Pick<Network, 'name' | 'xml' | 'leases' | 'addDhcpHost' | 'removeDhcpHost'>

export class GuestNetwork {
  readonly #network: DhcpNetwork
  readonly #firewall: Pick<Firewall, 'ensure'>
  readonly #limits: Pick<GuestLimits, 'set' | 'ensure'>
  /** Addresses are given one after the other: two desktops at once must not get the same. */
  #last: Promise<unknown> = Promise.resolve()
  readonly #unknown = new Map<DesktopId, Nic>()

  constructor(network: DhcpNetwork, firewall: Pick<Firewall, 'ensure'>, limits: Pick<GuestLimits, 'set' | 'ensure'>) {
    this.#network = network
    this.#firewall = firewall
    this.#limits = limits
  }

  get name(): string {
    return this.#network.name
  }

  /** Sees to it that the firewall is in place. Throws a sentence for the operator if that fails. */
  ensureFirewall(): Promise<void> {
    return this.#firewall.ensure()
  }

  /** Sees to it that the limits are in place which guests have. */
  ensureLimits(): Promise<void> {
    return this.#limits.ensure()
  }

  /** Limits what the guest with that address sends and receives. */
  limit(limit: GuestLimit): Promise<void> {
    return this.#limits.set(limit)
  }

  /** The desktop's port with the address that it has, else with the preferred one if that is free, else with another. */
  async nicFor(desktopId: DesktopId, preferred?: string): Promise<Nic> {
    await this.ensureFirewall().catch(refuseUnprotected)
    const assigning = this.#last.then(() => this.#assign(desktopId, preferred))
    this.#last = assigning.catch(() => undefined)
    return assigning
  }

  /**
   * A saved domain's XML, filtered to the desktop's address. If that is not the one that it was saved with, its guest
   * gets it at its next DHCP request.
   */
  async attach(desktopId: DesktopId, savedXml: string): Promise<string> {
    if (!hasInterface(savedXml)) return savedXml
    const before = readNic(savedXml)?.ip
    const nic = await this.nicFor(desktopId, before)
    if (nic.ip !== before) this.#unknown.set(desktopId, nic)
    return withAddress(savedXml, nic.ip)
  }

  /** The address that the guest does not have yet, once: its memory came with another one. */
  takeNewAddress(desktopId: DesktopId): Nic | undefined {
    const nic = this.#unknown.get(desktopId)
    this.#unknown.delete(desktopId)
    return nic
  }

  /** Frees the address of a desktop that is destroyed. */
  async releaseAddress(desktopId: DesktopId): Promise<void> {
    this.#unknown.delete(desktopId)
    const mac = macOf(desktopId)
    const ip = readHosts(await this.#xml()).get(mac)
    if (ip) await orRefuse('the desktop’s address could not be freed', this.#network.removeDhcpHost({ mac, ip }))
  }

  async #assign(desktopId: DesktopId, preferred: string | undefined): Promise<Nic> {
    const xml = await this.#xml()
    const [mac, hosts] = [macOf(desktopId), readHosts(xml)]
    const reserved = hosts.get(mac)
    if (reserved) return { network: this.name, mac, ip: reserved }
    const [taken, leased] = [new Set(hosts.values()), await this.#leasedToOthers(mac)]
    const ip = firstFree(candidates(xml, desktopId, preferred), taken, leased)
    await orRefuse('the desktop could not be given an address', this.#network.addDhcpHost({ mac, ip }))
    return { network: this.name, mac, ip }
  }

  /** dnsmasq gives a leased address to no other machine until the lease ends, even if its machine no longer exists. */
  async #leasedToOthers(mac: string): Promise<Set<string>> {
    const leases = await orRefuse('the guests’ leases could not be read', this.#network.leases())
    return new Set(leases.filter((lease) => lease.mac !== mac).map(({ ip }) => ip))
  }

  #xml(): Promise<string> {
    return orRefuse('the guests’ network could not be read', this.#network.xml())
  }
}

/** The cause is for the operator. */
function refuseUnprotected(cause: unknown): never {
  const refusal = new Refusal(
    'hypervisor_failed',
    'the desktop’s host could not set up the firewall of its network; nothing was lost, try again later',
  )
  refusal.cause = cause
  throw refusal
}

/** The preferred address if it is on this network, then all others, beginning with one that follows from the id. */
function candidates(xml: string, desktopId: DesktopId, preferred: string | undefined): string[] {
  const subnet = readSubnet(xml) ?? refuse('hypervisor_failed', 'the guests’ network has no addresses')
  const count = addressCount(subnet)
  const first = Number.parseInt(desktopId.slice(-8), 16) % count
  const all = Array.from({ length: count }, (_, n) => guestAddress(subnet, (first + n) % count)!)
  return preferred && all.includes(preferred) ? [preferred, ...all] : all
}

/** A leased address only if no other is left: its desktop then has no network until the lease ends. */
function firstFree(candidates: string[], taken: Set<string>, leased: Set<string>): string {
  const left = candidates.filter((ip) => !taken.has(ip))
  return (
    left.find((ip) => !leased.has(ip)) ??
    left[0] ??
    refuse('hypervisor_failed', 'the guests’ network has no address left; set a shorter DORMOUSE_AGENT_NETWORK_PREFIX')
  )
}
