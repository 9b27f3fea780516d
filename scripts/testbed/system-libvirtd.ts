// The system's libvirtd: whether it runs, serves QEMU, and can reach our files.

import { existsSync, statSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { LibvirtHost } from '@dormouse/node-libvirt'

/** The socket to use, or why there is none. */
export type SystemLibvirtd = { socketPath: string } | { socketPath?: undefined; why: string }

/** The monolithic daemon, or the modular one for QEMU. */
const sockets = ['/run/libvirt/libvirt-sock', '/run/libvirt/virtqemud-sock']

/** Looks for a system libvirtd whose QEMU, which runs as another user than root, can enter the data folder. */
export async function findSystemLibvirtd(dataDir: string, candidates = sockets): Promise<SystemLibvirtd> {
  const socketPath = candidates.find((each) => existsSync(each))
  if (!socketPath) return { why: 'no libvirtd runs on this machine' }
  const closed = closedToOthers(dataDir)
  if (closed) return { why: `its QEMU cannot enter ${closed}` }
  try {
    await requireQemu(socketPath)
    return { socketPath }
  } catch (error) {
    return { why: `it does not respond: ${(error as Error).message}` }
  }
}

/** Rejects unless the daemon on this socket serves QEMU, the system's or a session's. */
export async function requireQemu(socketPath: string, uri = 'qemu:///system'): Promise<void> {
  const host = await LibvirtHost.open({ socketPath, uri })
  await host.close()
}

/** The first folder on the path that other users cannot enter. Folders that do not exist yet are no obstacle. */
export function closedToOthers(path: string): string | undefined {
  const folders: string[] = []
  for (let at = resolve(path); at !== dirname(at); at = dirname(at)) folders.unshift(at)
  return folders.find((folder) => existsSync(folder) && (statSync(folder).mode & 0o001) === 0)
}
