// The storage pool of an installation's disks. Its name contains the installation's id; no other pool is touched.
import { isLibvirtError, type LibvirtHost, type Pool } from '@dormouse/node-libvirt'
import { makeFolder } from '@dormouse/process'
import { poolFolderOf, poolXml } from './domain-xml.ts'

/** What the installation's pool and network are called. */
export const installationName = (installationId: string): string => `dormouse-${installationId}`

/** The pool of this installation's disks, running. Throws a sentence for the operator if it is in another folder. */
export async function ensurePool(host: LibvirtHost, installationId: string, folder: string): Promise<Pool> {
  const name = installationName(installationId)
  // Others may pass through, none may list: QEMU's user must reach the disks below.
  makeFolder(folder, 0o711)
  const found = await host.storage.pools.lookup(name)
  const pool = found ?? (await host.storage.pools.define(poolXml(name, folder)))
  const poolFolder = poolFolderOf(await pool.xml())
  if (poolFolder !== folder) {
    throw new Error(
      `the storage pool ${name} is in ${poolFolder}, not in ${folder}; set DORMOUSE_AGENT_DISKS_DIR to ${poolFolder}, or undefine the pool`,
    )
  }
  if ((await pool.info()).state !== 'running') await pool.create().catch(unlessRunning)
  await pool.setAutostart(true)
  await pool.refresh()
  return pool
}

/** Another process started it first. */
function unlessRunning(error: unknown): void {
  if (!isLibvirtError(error, 'operationInvalid')) throw error
}
