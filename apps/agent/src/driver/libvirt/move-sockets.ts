// The unix sockets over which QEMU and libvirtd send and take a guest's memory and disk. Who can open one can read and write
// the guest's disk, so the folder of each move is closed to all but QEMU's user.
import { chmod, chown, lstat, mkdir } from 'node:fs/promises'
import { createServer, type Server } from 'node:net'
import { join } from 'node:path'
import type { DesktopId } from '@dormouse/contract'
import { makeFolder } from '@dormouse/process'
import { removeForeignFolder } from '../../mechanics/foreign-folder.ts'
import type { GiveStream } from '../moves.ts'

/** The two streams of a move, as both hosts call them. */
export const moveStreams = ['disk', 'memory'] as const
export type MoveStream = (typeof moveStreams)[number]

export interface MoveFolder {
  path(socket: MoveStream | 'devices'): string
  remove(): Promise<void>
}

/** Where the folders of moves are, and what the names of sockets end in. */
export interface MovePlace {
  base: string
  suffix: string
}

/** Only here, and only under this name, libvirt's profiles of AppArmor let a domain's QEMU make a socket and connect to one. */
export const confinedMoves = '/run/libvirt/m'
export const confinedPlace = (domainName: string): MovePlace => ({
  base: confinedMoves,
  suffix: `.tunnelmigrate.dest.${domainName}`,
})

/** Who makes the sockets in a folder. */
type Listener = 'agent' | 'qemu'

/**
 * Makes the desktop's folder again. QEMU's user can change names in it only if QEMU listens; there this process does nothing by
 * name but connect, which follows no link.
 */
export async function openMoveFolder(
  { base, suffix }: MovePlace,
  desktopId: DesktopId,
  owner: { uid: number; gid: number } | undefined,
  listener: Listener = 'agent',
): Promise<MoveFolder> {
  makeFolder(base, 0o711)
  await requireOwn(base)
  const folder = folderIn(base, desktopId)
  await removeMoveFolder(base, desktopId)
  await mkdir(folder, { mode: 0o700 })
  if (owner && isRoot() && listener === 'qemu') await chown(folder, owner.uid, owner.gid)
  if (owner && isRoot() && listener === 'agent') {
    await chown(folder, 0, owner.gid)
    // QEMU may pass through to a socket whose name it knows.
    await chmod(folder, 0o710)
  }
  return {
    // The one letter leaves space for the suffix.
    path: (socket) => join(folder, suffix ? `${socket[0]}${suffix}` : socket),
    remove: () => removeMoveFolder(base, desktopId),
  }
}

/** Does nothing if the desktop has none. */
export function removeMoveFolder(base: string, desktopId: DesktopId): Promise<void> {
  return removeForeignFolder(folderIn(base, desktopId))
}

const isRoot = (): boolean => process.geteuid?.() === 0

/** In a folder of another user, the names of moves could be replaced. */
async function requireOwn(base: string): Promise<void> {
  const found = await lstat(base)
  if (!found.isDirectory() || found.uid !== process.geteuid?.()) {
    throw new Error(`${base} must be a folder of the agent's user; remove it, and the agent makes it again`)
  }
}

/** Listens where QEMU's user, who is not always this process's, can connect. The folder must be the agent's. */
export async function listenForQemu(server: Server, path: string): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(path, resolve)
  })
  await chmod(path, 0o666)
}

/** A socket's path has at most 107 bytes, and ids end at random. */
const folderIn = (base: string, desktopId: DesktopId): string => join(base, desktopId.slice(-12))

/** Listens on both sockets, and gives away each connection as it comes, unread. */
export async function listenForStreams(folder: MoveFolder, give: GiveStream): Promise<Disposable> {
  const servers: Server[] = []
  const close = () => {
    for (const server of servers) server.close()
  }
  try {
    for (const stream of moveStreams) {
      const server = createServer({ allowHalfOpen: true, pauseOnConnect: true }, (socket) => give(stream, socket))
      servers.push(server)
      await listenForQemu(server, folder.path(stream))
    }
  } catch (error) {
    close()
    throw error
  }
  return { [Symbol.dispose]: close }
}
