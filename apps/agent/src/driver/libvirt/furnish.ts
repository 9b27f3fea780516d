// What an installation needs on a libvirt before its first desktop: a pool for the disks, a network for the guests. All
// of it carries the installation's id in its name; nothing else is looked at.
import { mkdir } from 'node:fs/promises'
import { isLibvirtError, type LibvirtHost, type Network, type Pool } from '@dormouse/node-libvirt'
import type { Log } from '@dormouse/process'
import { poolFolderOf, poolXml } from './domain-xml.ts'
import { GuestNetwork } from './guest-network.ts'
import { filterName, networkXml, type Subnet, subnetOf } from './network-xml.ts'

export const furnitureName = (installationId: string): string => `dormouse-${installationId}`

/** The pool of this installation's disks, running. Throws a sentence where it lies elsewhere. */
export async function ensurePool(host: LibvirtHost, installationId: string, folder: string): Promise<Pool> {
  const name = furnitureName(installationId)
  // Others may pass through, none may list: QEMU's user must reach the disks below.
  await mkdir(folder, { recursive: true, mode: 0o711 })
  const found = await host.storage.pools.lookup(name)
  const pool = found ?? (await host.storage.pools.define(poolXml(name, folder)))
  const lies = poolFolderOf(await pool.xml())
  if (lies !== folder) {
    throw new Error(
      `the storage pool ${name} lies in ${lies}, not in ${folder}: set DORMOUSE_AGENT_DISKS_DIR to that, or undefine the pool`,
    )
  }
  if ((await pool.info()).state !== 'running') await pool.create().catch(unlessRunning)
  await pool.setAutostart(true)
  await pool.refresh()
  return pool
}

/** Another start came first. */
function unlessRunning(error: unknown): void {
  if (!isLibvirtError(error, 'operationInvalid')) throw error
}

export interface Networking {
  /** Undefined where guests have none. */
  network?: GuestNetwork
  /** What an operator reads. */
  said: string
}

const tries = 8
const filterMissing = `libvirt has no filter "${filterName}" to hold guests to their own addresses (Debian: apt-get install libvirt-daemon-config-nwfilter iptables)`

/**
 * NAT for the guests, where it can be started and where each guest can be held to its own addresses; where it cannot,
 * none, and the reason is said.
 */
export async function ensureNetwork(
  host: LibvirtHost,
  installationId: string,
  wish: { network: 'nat' | 'none'; prefix: string | undefined },
  log: Log,
): Promise<Networking> {
  if (wish.network === 'none') return { said: 'none' }
  const name = furnitureName(installationId)
  const subnets = wish.prefix ? [subnetOf(wish.prefix)] : candidates(installationId)
  let why = filterMissing
  for (const subnet of subnets) {
    try {
      if (!(await host.networks.hasFilter(filterName))) break
      const network = await start(host, name, networkXml(name, bridgeOf(installationId), subnet))
      return { network: new GuestNetwork(network), said: 'nat' }
    } catch (error) {
      if (!isLibvirtError(error)) throw error
      why = error.message
    }
  }
  log.warn({ network: name, why }, 'the guests have no network: it could not be started')
  return { said: `none: nat could not be started (${why})` }
}

async function start(host: LibvirtHost, name: string, xml: string): Promise<Network> {
  const found = await host.networks.lookup(name)
  if (found && (await isActive(host, name))) return found
  const network = await host.networks.define(found ? withUuid(xml, found.uuid) : xml)
  await network.create()
  await network.setAutostart(true)
  return network
}

const activeNetworks = 2

async function isActive(host: LibvirtHost, name: string): Promise<boolean> {
  return (await host.networks.list(activeNetworks)).some((network) => network.name === name)
}

const withUuid = (xml: string, uuid: string) => xml.replace('</name>', `</name><uuid>${uuid}</uuid>`)

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
