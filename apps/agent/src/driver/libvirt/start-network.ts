// Starts the guests' network: libvirt's NAT, and the firewall around it. Knows no desktop.
import { readFile } from 'node:fs/promises'
import { CallTimeout, ConnectionLost, isLibvirtError, type LibvirtHost, type Network } from '@dormouse/node-libvirt'
import type { Log } from '@dormouse/process'
import type { AllowedDestination } from './allowed-destinations.ts'
import { Firewall } from './firewall.ts'
import { GuestLimits } from './guest-limits.ts'
import { GuestNetwork } from './guest-network.ts'
import { filterName, gatewayOf, networkXml, readHosts, readSubnet, type Subnet, subnetOf } from './network-xml.ts'
import { installationName } from './storage-pool.ts'

export interface Networking {
  /** Undefined if guests have none. */
  network?: GuestNetwork
  /** For the operator. */
  summary: string
}

export interface NetworkRequest {
  network: 'nat' | 'none'
  prefix: string | undefined
  allowed: readonly AllowedDestination[]
}

const tries = 8
const filterMissing = `libvirt does not have the filter "${filterName}", which limits guests to their own addresses (Debian: apt-get install libvirt-daemon-config-nwfilter iptables)`

/**
 * Gives the guests NAT, with each guest filtered to its own address and a firewall around all of them. If any of these fails,
 * guests have no network, and the summary says why.
 */
export async function ensureNetwork(
  host: LibvirtHost,
  installationId: string,
  { network: kind, prefix, allowed }: NetworkRequest,
  log: Log,
): Promise<Networking> {
  if (kind === 'none') return { summary: 'none' }
  try {
    if (!(await host.networks.hasFilter(filterName))) throw new Error(filterMissing)
    const network = await startNetwork(host, installationId, prefix)
    const { firewall, limits } = await startFirewall(network, installationId, allowed, log)
    return { network: new GuestNetwork(network, firewall, limits), summary: 'nat' }
  } catch (error) {
    if (error instanceof ConnectionLost || error instanceof CallTimeout) throw error
    const why = (error as Error).message
    log.warn({ network: installationName(installationId), why }, 'the guests have no network')
    return { summary: `none: nat could not be started (${why})` }
  }
}

async function startFirewall(
  network: Network,
  installationId: string,
  allowed: readonly AllowedDestination[],
  log: Log,
): Promise<{ firewall: Firewall; limits: GuestLimits }> {
  const [bridge, subnet] = [await network.bridgeName(), readSubnet(await network.xml())]
  if (!subnet) throw new Error('the guests’ network has no addresses')
  const devices = await readFile('/proc/net/dev', 'utf8')
  if (!devices.includes(`${bridge}:`))
    throw new Error(`the agent is not in the network namespace of ${bridge}; run it on the host itself`)
  const table = `dormouse_${installationId.slice(-12)}`
  const firewall = new Firewall({ table, bridge, gateway: gatewayOf(subnet), allowed }, log)
  await firewall.ensure()
  return { firewall, limits: new GuestLimits({ table: `${table}_shares`, bridge }, log) }
}

/** The network as it runs, else on the subnet that it had, else on the first free one. */
async function startNetwork(host: LibvirtHost, installationId: string, prefix: string | undefined): Promise<Network> {
  const name = installationName(installationId)
  const found = await host.networks.lookup(name)
  if (found && (await isActive(host, name))) return found
  const xml = found && (await found.xml())
  const before = readSubnet(xml ?? '')
  const subnets = prefix ? [subnetOf(prefix)] : [...(before ? [before] : []), ...candidates(installationId)]
  const xmlOn = (subnet: Subnet) => {
    const made = networkXml(
      name,
      bridgeOf(installationId),
      subnet,
      isSame(subnet, before) ? readHosts(xml ?? '') : undefined,
    )
    return found ? withIdentity(made, found.uuid, xml ?? '') : made
  }
  return startFirst(host, subnets.map(xmlOn))
}

async function startFirst(host: LibvirtHost, xmls: string[]): Promise<Network> {
  let why: unknown
  for (const xml of xmls) {
    try {
      const network = await host.networks.define(xml)
      await network.create()
      await network.setAutostart(true)
      return network
    } catch (error) {
      if (!isLibvirtError(error)) throw error
      why = error
    }
  }
  throw why
}

const activeNetworks = 2

async function isActive(host: LibvirtHost, name: string): Promise<boolean> {
  return (await host.networks.list(activeNetworks)).some((network) => network.name === name)
}

const isSame = (a: Subnet, b: Subnet | undefined): boolean => a.first === b?.first && a.bits === b.bits

/** The same UUID for libvirt, and the same MAC for saved guests, which remember their gateway's. */
function withIdentity(xml: string, uuid: string, before: string): string {
  const mac = /<mac address=['"][\da-f:]+['"]\/>/.exec(before)?.[0] ?? ''
  return xml.replace('</name>', `</name><uuid>${uuid}</uuid>${mac}`)
}

/** A device name has at most 15 characters, so it takes the random end of the id. */
const bridgeOf = (installationId: string) => `dm${installationId.slice(-12)}`

/** Networks to try, always the same for an installation, each for about 4,000 desktops. */
function candidates(installationId: string): Subnet[] {
  const first = Number.parseInt(installationId.slice(-4), 16)
  const second = 96 + ((first >> 8) % 32)
  return Array.from({ length: tries }, (_, n) => {
    return { first: subnetOf(`10.${second}.${((first + n) % 16) * 16}`).first, bits: 20 }
  })
}
