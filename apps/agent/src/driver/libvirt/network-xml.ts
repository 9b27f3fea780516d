// The XML of the guests' network and of a desktop's port on it, and what is read back from both. Pure.
import type { DesktopId } from '@dormouse/contract'

/** libvirt's filter that drops what a guest sends from another address than its own. */
export const filterName = 'clean-traffic'

/** An IPv4 network: its own address as a number, and its prefix length. */
export interface Subnet {
  first: number
  bits: number
}

/** A desktop's port on a network. */
export interface Nic {
  network: string
  mac: string
  /** The only address that its filter lets it use. */
  ip: string
}

/** The network that begins with these two or three numbers. */
export function subnetOf(prefix: string): Subnet {
  const numbers = prefix.split('.').length
  return { first: numberOf(prefix + '.0'.repeat(4 - numbers)), bits: 8 * numbers }
}

export const sizeOf = ({ bits }: Subnet): number => 2 ** (32 - bits)

/** The host's own address on it. */
export const gatewayOf = ({ first }: Subnet): string => addressOf(first + 1)

/** The address with that index; 0 is the first that a guest can have. Undefined after the last. */
export function guestAddress(subnet: Subnet, index: number): string | undefined {
  return index >= 0 && index < addressCount(subnet) ? addressOf(subnet.first + 2 + index) : undefined
}

/** How many addresses guests can have: all but the network's own, the host's and the broadcast address. */
export const addressCount = (subnet: Subnet): number => sizeOf(subnet) - 3

/** Only machines with a reserved address get one, and the DNS server ignores the names that guests give themselves. */
const dnsmasqOptions = ['dhcp-ignore=tag:!known', 'dhcp-ignore-names']
const dnsmasqNamespace = 'http://libvirt.org/schemas/network/dnsmasq/1.0'

/**
 * STP is off: with it a guest would be unreachable after each wake. Leases expire: dnsmasq gives a desktop no address that
 * another still leases, even one that no longer exists; desktops that exist get theirs again.
 */
export function networkXml(name: string, bridge: string, subnet: Subnet, hosts = new Map<string, string>()): string {
  const [from, to] = [guestAddress(subnet, 0), guestAddress(subnet, addressCount(subnet) - 1)]
  const kept = [...hosts].map(([mac, ip]) => `<host mac='${mac}' ip='${ip}'/>`).join('')
  const options = dnsmasqOptions.map((option) => `<dnsmasq:option value='${option}'/>`).join('')
  return (
    `<network xmlns:dnsmasq='${dnsmasqNamespace}'><name>${name}</name><forward mode='nat'/>` +
    `<bridge name='${bridge}' stp='off' delay='0'/>` +
    `<ip address='${gatewayOf(subnet)}' netmask='${addressOf(2 ** 32 - sizeOf(subnet))}'>` +
    `<dhcp><range start='${from}' end='${to}'><lease expiry='1' unit='hours'/></range>${kept}</dhcp></ip>` +
    `<dnsmasq:options>${options}</dnsmasq:options></network>`
  )
}

/** The addresses in a network's XML; undefined if it has none. */
export function readSubnet(xml: string): Subnet | undefined {
  const [, gateway, netmask] = /<ip address=['"]([\d.]+)['"] netmask=['"]([\d.]+)['"]/.exec(xml) ?? []
  if (!gateway || !netmask) return undefined
  const size = 2 ** 32 - numberOf(netmask)
  const first = numberOf(gateway) - (numberOf(gateway) % size)
  return { first, bits: 32 - Math.log2(size) }
}

/** The reserved addresses, by MAC. */
export function readHosts(xml: string): Map<string, string> {
  const hosts = xml.matchAll(/<host mac=['"]([\da-f:]+)['"][^>]*?\bip=['"]([\d.]+)['"]/g)
  return new Map([...hosts].map(([, mac, ip]) => [mac!, ip!]))
}

/** A port on the network that reaches the host but no other guest, and only from its own address. */
export function nicXml({ network, mac, ip }: Nic): string {
  return (
    `<interface type='network'><mac address='${mac}'/><source network='${network}'/>` +
    `<model type='virtio'/>${restrictedTo(ip)}</interface>`
  )
}

/** A domain's port on the network; undefined if it has none, or one without our filter. */
export function readNic(domainXml: string): Nic | undefined {
  const nic = /<interface type=['"]network['"]>[\s\S]*?<\/interface>/.exec(domainXml)?.[0] ?? ''
  const of = (form: RegExp) => form.exec(nic)?.[1]
  const mac = of(/<mac address=['"]([\da-f:]+)['"]/)
  const network = of(/<source network=['"]([^'"]+)['"]/)
  const ip = of(/<filterref filter=['"]clean-traffic['"]>\s*<parameter name=['"]IP['"] value=['"]([\d.]+)['"]/)
  return mac && network && ip ? { network, mac, ip } : undefined
}

const interfaces = /<interface\b[\s\S]*?<\/interface>/g

export const hasInterface = (domainXml: string): boolean => domainXml.search(interfaces) >= 0

/** Whether it is on a network without our filter, so that its guest could use any address. */
export const isUnfiltered = (domainXml: string): boolean => hasInterface(domainXml) && !readNic(domainXml)

/**
 * A saved domain's XML with its link up, filtered to that address and isolated from other guests, whatever it was before.
 * The rest of the port stays, because the saved memory knows its MAC and its slot.
 */
export function withAddress(domainXml: string, ip: string): string {
  const before = /<filterref\b[^>]*\/>|<filterref\b[\s\S]*?<\/filterref>|<port\b[^>]*\/>|<link\b[^>]*\/>/g
  const restrict = (nic: string) => nic.replace(before, '').replace('</interface>', `${restrictedTo(ip)}</interface>`)
  return domainXml.replace(interfaces, restrict)
}

/** A saved domain's XML with its link down: the saved memory finds its device, which reaches nothing. */
export function withLinkDown(domainXml: string): string {
  const setDown = (nic: string) =>
    nic.replace(/<link\b[^>]*\/>/g, '').replace('</interface>', `<link state='down'/></interface>`)
  return domainXml.replace(interfaces, setDown)
}

const restrictedTo = (ip: string) =>
  `<port isolated='yes'/><filterref filter='${filterName}'><parameter name='IP' value='${ip}'/></filterref>`

/** A locally administered MAC, always the same for a desktop: made of the random end of its id. */
export function macOf(desktopId: DesktopId): string {
  const random = desktopId.replaceAll('-', '').slice(-10)
  return ['52', ...(random.match(/../g) ?? [])].join(':')
}

const numberOf = (address: string): number => address.split('.').reduce((sum, part) => sum * 256 + Number(part), 0)

const addressOf = (number: number): string => [24, 16, 8, 0].map((shift) => (number >>> shift) & 255).join('.')
