// Brings the guests' network up: libvirt's NAT, and the firewall around it. Knows no desktop.
import { readFile } from 'node:fs/promises'
import { CallTimeout, ConnectionLost, isLibvirtError, type LibvirtHost, type Network } from '@dormouse/node-libvirt'
import type { Log } from '@dormouse/process'
import { Firewall } from './firewall.ts'
import { furnitureName } from './furnish.ts'
import { GuestNetwork } from './guest-network.ts'
import {
  filterName,
  gatewayOf,
  isOn,
  isOutdated,
  networkXml,
  readHosts,
  readSubnet,
  type Subnet,
  subnetOf,
} from './network-xml.ts'
import type { Opening } from './openings.ts'

export interface Networking {
  /** Undefined where guests have none. */
  network?: GuestNetwork
  /** What an operator reads. */
  said: string
}

export interface NetworkWish {
  network: 'nat' | 'none'
  prefix: string | undefined
  openings: readonly Opening[]
}

const tries = 8
const filterMissing = `libvirt has no filter "${filterName}" to hold guests to their own addresses (Debian: apt-get install libvirt-daemon-config-nwfilter iptables)`

/**
 * NAT for the guests, where it can be started, where each guest can be held to its own address, and where the firewall can
 * be put around all of them; where one of these fails, none, and the reason is said.
 */
export async function ensureNetwork(
  host: LibvirtHost,
  installationId: string,
  { network: kind, prefix, openings }: NetworkWish,
  log: Log,
): Promise<Networking> {
  if (kind === 'none') return { said: 'none' }
  try {
    if (!(await host.networks.hasFilter(filterName))) throw new Error(filterMissing)
    const network = await startNetwork(host, installationId, prefix)
    const firewall = await enclose(network, installationId, openings, log)
    return { network: new GuestNetwork(network, firewall), said: 'nat' }
  } catch (error) {
    if (error instanceof ConnectionLost || error instanceof CallTimeout) throw error
    const why = (error as Error).message
    log.warn({ network: furnitureName(installationId), why }, 'the guests have no network')
    return { said: `none: nat could not be started (${why})` }
  }
}

async function enclose(
  network: Network,
  installationId: string,
  openings: readonly Opening[],
  log: Log,
): Promise<Firewall> {
  const [bridge, subnet] = [await network.bridgeName(), readSubnet(await network.xml())]
  if (!subnet) throw new Error('the guests’ network has no addresses')
  const devices = await readFile('/proc/net/dev', 'utf8')
  if (!devices.includes(`${bridge}:`))
    throw new Error(`the agent does not run where ${bridge} is: run it on the host itself`)
  const table = `dormouse_${installationId.slice(-12)}`
  const firewall = new Firewall({ table, bridge, gateway: gatewayOf(subnet), openings }, log)
  await firewall.hold()
  return firewall
}

/** The network as it runs, else on the subnet it had, else on the first that is free. */
async function startNetwork(host: LibvirtHost, installationId: string, prefix: string | undefined): Promise<Network> {
  const name = furnitureName(installationId)
  const found = await host.networks.lookup(name)
  const xml = found && (await found.xml())
  const runs = found && (await isActive(host, name))
  if (found && xml && runs) {
    if (!isOutdated(xml) || (await isInUse(host, name))) return found
    await found.destroy()
  }
  const before = readSubnet(xml ?? '')
  const wished = prefix ? [subnetOf(prefix)] : [...(before ? [before] : []), ...candidates(installationId)]
  const xmlOn = (subnet: Subnet) => {
    const made = networkXml(
      name,
      bridgeOf(installationId),
      subnet,
      isSame(subnet, before) ? readHosts(xml ?? '') : undefined,
    )
    return found ? withIdentity(made, found.uuid, xml ?? '') : made
  }
  return startFirst(host, wished.map(xmlOn))
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

/** A domain that has just ended is on nothing any more. */
async function isInUse(host: LibvirtHost, name: string): Promise<boolean> {
  const xmls = (await host.domains.list()).map((domain) => domain.xml().catch(() => ''))
  return (await Promise.all(xmls)).some((xml) => isOn(xml, name))
}

const isSame = (a: Subnet, b: Subnet | undefined): boolean => a.first === b?.first && a.bits === b.bits

/** The same network to libvirt, and to sleeping guests, who know their gateway's hardware address. */
function withIdentity(xml: string, uuid: string, before: string): string {
  const mac = /<mac address=['"][\da-f:]+['"]\/>/.exec(before)?.[0] ?? ''
  return xml.replace('</name>', `</name><uuid>${uuid}</uuid>${mac}`)
}

/** A device name has 15 characters: the random end of the id. */
const bridgeOf = (installationId: string) => `dm${installationId.slice(-12)}`

/** Networks to try, the same ones for an installation each time, each with room for four thousand desktops. */
function candidates(installationId: string): Subnet[] {
  const first = Number.parseInt(installationId.slice(-4), 16)
  const second = 96 + ((first >> 8) % 32)
  return Array.from({ length: tries }, (_, n) => {
    return { first: subnetOf(`10.${second}.${((first + n) % 16) * 16}`).first, bits: 20 }
  })
}
