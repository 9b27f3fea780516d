// What an installation needs on a libvirt before its first desktop: a pool for the disks; its network is next door. All of
// it carries the installation's id in its name; nothing else is looked at.
import { mkdir } from 'node:fs/promises'
import { isLibvirtError, type LibvirtHost, type Pool } from '@dormouse/node-libvirt'
import { poolFolderOf, poolXml } from './domain-xml.ts'

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
