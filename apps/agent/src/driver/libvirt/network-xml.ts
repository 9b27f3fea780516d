// The XML of the guests' network, of a desktop's place on it, and what is read back of both: pure text in, text out.
import type { DesktopId } from '@dormouse/contract'

/** What keeps a guest to its own addresses: libvirt's filter of that name. */
export const filterName = 'clean-traffic'

/** IPv4 networks as numbers: `first` is the network's own address, `bits` how much of it stays the same. */
export interface Subnet {
  first: number
  bits: number
}

/** A desktop's place on a network. */
export interface Nic {
  network: string
  mac: string
  /** The only address that its filter lets it use. */
  ip: string
}

/** From the first two or three numbers of a network. */
export function subnetOf(prefix: string): Subnet {
  const numbers = prefix.split('.').length
  return { first: numberOf(prefix + '.0'.repeat(4 - numbers)), bits: 8 * numbers }
}

export const sizeOf = ({ bits }: Subnet): number => 2 ** (32 - bits)

/** The host's own address on it. */
export const gatewayOf = ({ first }: Subnet): string => addressOf(first + 1)

/** The address at that place, counted from the first that a guest can have; undefined beyond the last. */
export function guestAddress(subnet: Subnet, place: number): string | undefined {
  return place >= 0 && place < placesOn(subnet) ? addressOf(subnet.first + 2 + place) : undefined
}

/** How many guests there is room for: the network's own address, the host's and the one for all are taken. */
export const placesOn = (subnet: Subnet): number => sizeOf(subnet) - 3

/** Only machines that an address is kept for get one, and the names that guests give themselves are told to nobody. */
const dnsmasqOptions = ['dhcp-ignore=tag:!known', 'dhcp-ignore-names']
const dnsmasqNamespace = 'http://libvirt.org/schemas/network/dnsmasq/1.0'

/**
 * No STP: a guest would be out of reach after each wake. Leases end: dnsmasq gives a desktop no address that another, which
 * may be long gone, still has on lease; and those who are there are given theirs again.
 */
export function networkXml(name: string, bridge: string, subnet: Subnet, hosts = new Map<string, string>()): string {
  const [from, to] = [guestAddress(subnet, 0), guestAddress(subnet, placesOn(subnet) - 1)]
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

/** Whether a network was made by an earlier release, without what this one gives its networks. */
export const isOutdated = (xml: string): boolean => !dnsmasqOptions.every((option) => xml.includes(option))

/** What a network's XML says of its addresses; undefined where it has none. */
export function readSubnet(xml: string): Subnet | undefined {
  const [, gateway, netmask] = /<ip address=['"]([\d.]+)['"] netmask=['"]([\d.]+)['"]/.exec(xml) ?? []
  if (!gateway || !netmask) return undefined
  const size = 2 ** 32 - numberOf(netmask)
  const first = numberOf(gateway) - (numberOf(gateway) % size)
  return { first, bits: 32 - Math.log2(size) }
}

/** Which address is kept for which machine. */
export function readHosts(xml: string): Map<string, string> {
  const hosts = xml.matchAll(/<host mac=['"]([\da-f:]+)['"][^>]*?\bip=['"]([\d.]+)['"]/g)
  return new Map([...hosts].map(([, mac, ip]) => [mac!, ip!]))
}

/**
 * A port on the network that speaks with the host and with nobody else there, from no address but its own.
 */
export function nicXml({ network, mac, ip }: Nic): string {
  return (
    `<interface type='network'><mac address='${mac}'/><source network='${network}'/>` +
    `<model type='virtio'/>${holds(ip)}</interface>`
  )
}

/** A domain's place on the network; undefined where it has none, or one without our filter. */
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

/** Whether it is on a network and held to no address of its own there, so that libvirt would need no filter for it. */
export const isUnheld = (domainXml: string): boolean => hasInterface(domainXml) && !readNic(domainXml)

/**
 * A saved domain's XML, plugged in, held to that address and alone on its port, whatever it was held to before. The rest of
 * its place stays: its memory knows its MAC and its slot.
 */
export function heldTo(domainXml: string, ip: string): string {
  const before = /<filterref\b[^>]*\/>|<filterref\b[\s\S]*?<\/filterref>|<port\b[^>]*\/>|<link\b[^>]*\/>/g
  const hold = (nic: string) => nic.replace(before, '').replace('</interface>', `${holds(ip)}</interface>`)
  return domainXml.replace(interfaces, hold)
}

/** A saved domain's XML with its cable pulled out: its memory finds its device, and the device reaches nothing. */
export function unplugged(domainXml: string): string {
  const unplug = (nic: string) =>
    nic.replace(/<link\b[^>]*\/>/g, '').replace('</interface>', `<link state='down'/></interface>`)
  return domainXml.replace(interfaces, unplug)
}

/** Whether a domain is on that network. */
export const isOn = (domainXml: string, network: string): boolean =>
  (domainXml.match(interfaces) ?? []).some((nic) => new RegExp(`<source network=['"]${network}['"]`).test(nic))

const holds = (ip: string) =>
  `<port isolated='yes'/><filterref filter='${filterName}'><parameter name='IP' value='${ip}'/></filterref>`

/** A unicast address of our own making, always the same for a desktop: the random end of its id. */
export function macOf(desktopId: DesktopId): string {
  const random = desktopId.replaceAll('-', '').slice(-10)
  return ['52', ...(random.match(/../g) ?? [])].join(':')
}

const numberOf = (address: string): number => address.split('.').reduce((sum, part) => sum * 256 + Number(part), 0)

const addressOf = (number: number): string => [24, 16, 8, 0].map((shift) => (number >>> shift) & 255).join('.')
