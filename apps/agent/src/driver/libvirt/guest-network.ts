// The guests' network on this host: which desktop has which address. libvirt keeps the list (an address for each desktop,
// until it is destroyed), hands the addresses out by DHCP and holds each guest to its own; a guest is never asked for it.
// Nobody comes onto it while its firewall is down.
import { type DesktopId, Refusal, refuse } from '@dormouse/contract'
import type { Network } from '@dormouse/node-libvirt'
import type { SshAddress } from '../guest-access.ts'
import { saying } from './failures.ts'
import type { Firewall } from './firewall.ts'
import {
  gatewayOf,
  guestAddress,
  hasInterface,
  heldTo,
  macOf,
  type Nic,
  placesOn,
  readHosts,
  readNic,
  readSubnet,
} from './network-xml.ts'

const sshPortNumber = 22

/** What is asked of libvirt's network. */
type Kept = Pick<Network, 'name' | 'xml' | 'leases' | 'addDhcpHost' | 'removeDhcpHost'>

export class GuestNetwork {
  readonly #network: Kept
  readonly #firewall: Pick<Firewall, 'hold'>
  /** Two desktops at once must not be given one address. */
  #turn: Promise<unknown> = Promise.resolve()

  constructor(network: Kept, firewall: Pick<Firewall, 'hold'>) {
    this.#network = network
    this.#firewall = firewall
  }

  get name(): string {
    return this.#network.name
  }

  /** Sees to it that the firewall stands. Throws a sentence for the operator where it cannot. */
  hold(): Promise<void> {
    return this.#firewall.hold()
  }

  /** The desktop's place: the one it has, else with the address it wishes for, else with a free one. */
  async place(desktopId: DesktopId, wished?: string): Promise<Nic> {
    await this.hold().catch(unprotected)
    const placing = this.#turn.then(() => this.#place(desktopId, wished))
    this.#turn = placing.catch(() => undefined)
    return placing
  }

  /**
   * A saved domain, held to the desktop's address: where another has its old one by now, to a new one, which it gets when it
   * asks.
   */
  async held(desktopId: DesktopId, savedXml: string): Promise<string> {
    if (!hasInterface(savedXml)) return savedXml
    return heldTo(savedXml, (await this.place(desktopId, readNic(savedXml)?.ip)).ip)
  }

  /** The desktop is gone for good, and its address free. */
  async free(desktopId: DesktopId): Promise<void> {
    const mac = macOf(desktopId)
    const ip = readHosts(await this.#xml()).get(mac)
    if (ip) await saying('the desktop’s address could not be freed', this.#network.removeDhcpHost({ mac, ip }))
  }

  /** Where to dial that desktop; undefined unless its domain is held to the very address that is kept for it here. */
  async door(desktopId: DesktopId, domainXml: string): Promise<SshAddress | undefined> {
    const nic = readNic(domainXml)
    if (nic?.network !== this.name || nic.mac !== macOf(desktopId)) return undefined
    const xml = await this.#xml()
    const subnet = readSubnet(xml)
    if (!subnet || readHosts(xml).get(nic.mac) !== nic.ip) return undefined
    // From the host's own address on that network: where it is not this host's, nothing leaves.
    return { host: nic.ip, port: sshPortNumber, localAddress: gatewayOf(subnet) }
  }

  async #place(desktopId: DesktopId, wished: string | undefined): Promise<Nic> {
    const xml = await this.#xml()
    const [mac, hosts] = [macOf(desktopId), readHosts(xml)]
    const kept = hosts.get(mac)
    if (kept) return { network: this.name, mac, ip: kept }
    const [taken, leased] = [new Set(hosts.values()), await this.#leasedToOthers(mac)]
    const ip = free(candidates(xml, desktopId, wished), taken, leased)
    await saying('the desktop was given no address', this.#network.addDhcpHost({ mac, ip }))
    return { network: this.name, mac, ip }
  }

  /** dnsmasq gives these to nobody else until the lease ends, also where the machine that had it is gone. */
  async #leasedToOthers(mac: string): Promise<Set<string>> {
    const leases = await saying('the guests’ leases could not be read', this.#network.leases())
    return new Set(leases.filter((lease) => lease.mac !== mac).map(({ ip }) => ip))
  }

  #xml(): Promise<string> {
    return saying('the guests’ network could not be read', this.#network.xml())
  }
}

/** What is wrong with it is the operator's business: the cause says it. */
function unprotected(cause: unknown): never {
  const refusal = new Refusal(
    'hypervisor_failed',
    'the desktop’s host could not protect its network: nothing was lost; try again later',
  )
  refusal.cause = cause
  throw refusal
}

/** The wished one where it is of this network, then all from a place on that follows from the id. */
function candidates(xml: string, desktopId: DesktopId, wished: string | undefined): string[] {
  const subnet = readSubnet(xml) ?? refuse('hypervisor_failed', 'the guests’ network has no addresses')
  const places = placesOn(subnet)
  const first = Number.parseInt(desktopId.slice(-8), 16) % places
  const all = Array.from({ length: places }, (_, n) => guestAddress(subnet, (first + n) % places)!)
  return wished && all.includes(wished) ? [wished, ...all] : all
}

/** One that is on lease only where no other is left: its desktop has no network until the lease ends. */
function free(candidates: string[], taken: Set<string>, leased: Set<string>): string {
  const left = candidates.filter((ip) => !taken.has(ip))
  return (
    left.find((ip) => !leased.has(ip)) ??
    left[0] ??
    refuse(
      'hypervisor_failed',
      'the guests’ network has no address left: give it a shorter DORMOUSE_AGENT_NETWORK_PREFIX',
    )
  )
}
