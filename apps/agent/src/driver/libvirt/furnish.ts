// What an installation needs on a libvirt before its first desktop: a pool for the disks, a network for the guests. All
// of it carries the installation's id in its name; nothing else is looked at.
import { mkdir } from 'node:fs/promises'
import { isLibvirtError, type LibvirtHost, type Pool } from '@dormouse/node-libvirt'
import type { Log } from '@dormouse/process'
import { networkXml, poolFolderOf, poolXml } from './domain-xml.ts'

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

export interface GuestNetwork {
  /** Null where guests have none. */
  name: string | null
  /** What an operator reads. */
  said: string
}

const tries = 8

/** NAT for the guests, where it can be started; where it cannot, none, and the reason is said. */
export async function ensureNetwork(
  host: LibvirtHost,
  installationId: string,
  wish: { network: 'nat' | 'none'; prefix: string | undefined },
  log: Log,
): Promise<GuestNetwork> {
  if (wish.network === 'none') return { name: null, said: 'none' }
  const name = furnitureName(installationId)
  const prefixes = wish.prefix ? [wish.prefix] : candidates(installationId)
  let why = ''
  for (const prefix of prefixes) {
    try {
      await start(host, name, networkXml(name, bridgeOf(installationId), prefix))
      return { name, said: 'nat' }
    } catch (error) {
      if (!isLibvirtError(error)) throw error
      why = error.message
    }
  }
  log.warn({ network: name, why }, 'the guests have no network: it could not be started')
  return { name: null, said: `none: nat could not be started (${why})` }
}

async function start(host: LibvirtHost, name: string, xml: string): Promise<void> {
  const found = await host.networks.lookup(name)
  if (found && (await isActive(host, name))) return
  const network = await host.networks.define(found ? withUuid(xml, found.uuid) : xml)
  await network.create()
  await network.setAutostart(true)
}

const activeNetworks = 2

async function isActive(host: LibvirtHost, name: string): Promise<boolean> {
  return (await host.networks.list(activeNetworks)).some((network) => network.name === name)
}

const withUuid = (xml: string, uuid: string) => xml.replace('</name>', `</name><uuid>${uuid}</uuid>`)

/** A device name has 15 characters: the random end of the id. */
const bridgeOf = (installationId: string) => `dm${installationId.slice(-12)}`

/** Networks to try, the same ones for an installation each time. */
function candidates(installationId: string): string[] {
  const first = Number.parseInt(installationId.slice(-4), 16)
  return Array.from({ length: tries }, (_, n) => `10.${96 + ((first >> 8) % 32)}.${(first + n) % 256}`)
}
