// The machine's own libvirtd: whether one answers, has QEMU, and may touch our files. Knows nothing of the private one.

import { existsSync, statSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { LibvirtHost } from '@dormouse/node-libvirt'

/** The socket to use, or why there is none. */
export type SystemLibvirtd = { socketPath: string } | { socketPath?: undefined; why: string }

/** The one daemon of old, or the one for QEMU alone. */
const sockets = ['/run/libvirt/libvirt-sock', '/run/libvirt/virtqemud-sock']

/** Looks for a libvirtd of the machine whose QEMU, another user than root there, may enter the data folder. */
export async function findSystemLibvirtd(dataDir: string, candidates = sockets): Promise<SystemLibvirtd> {
  const socketPath = candidates.find((each) => existsSync(each))
  if (!socketPath) return { why: 'no libvirtd runs on this machine' }
  const closed = closedToOthers(dataDir)
  if (closed) return { why: `its QEMU may not enter ${closed}` }
  try {
    await answer(socketPath)
    return { socketPath }
  } catch (error) {
    return { why: `it does not answer: ${(error as Error).message}` }
  }
}

/** Resolves when the daemon behind this socket serves QEMU: the system's, or that of a session. */
export async function answer(socketPath: string, uri = 'qemu:///system'): Promise<void> {
  const host = await LibvirtHost.open({ socketPath, uri })
  await host.close()
}

/** The first folder on the way that other users may not enter; folders yet to be made are not in the way. */
export function closedToOthers(path: string): string | undefined {
  const folders: string[] = []
  for (let at = resolve(path); at !== dirname(at); at = dirname(at)) folders.unshift(at)
  return folders.find((folder) => existsSync(folder) && (statSync(folder).mode & 0o001) === 0)
}
