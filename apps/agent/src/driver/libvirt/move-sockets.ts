// The unix sockets over which QEMU and libvirtd send and take a guest's memory and disk. Who can open one can read and write
// the guest's disk, so the folder of each move is closed to all but QEMU's user.
import { chown, mkdir, rm } from 'node:fs/promises'
import { createServer, type Server } from 'node:net'
import { join } from 'node:path'
import type { DesktopId } from '@dormouse/contract'
import type { GiveStream } from '../moves.ts'

/** The two streams of a move, as both hosts call them. */
export const moveStreams = ['disk', 'memory'] as const
export type MoveStream = (typeof moveStreams)[number]

export interface MoveFolder {
  path(socket: MoveStream | 'devices'): string
  remove(): Promise<void>
}

/** Makes the desktop's folder again. */
export async function openMoveFolder(
  base: string,
  desktopId: DesktopId,
  owner: { uid: number; gid: number } | undefined,
): Promise<MoveFolder> {
  await mkdir(base, { recursive: true, mode: 0o711 })
  const folder = folderIn(base, desktopId)
  await removeMoveFolder(base, desktopId)
  await mkdir(folder, { mode: 0o700 })
  const isRoot = process.getuid?.() === 0
  if (owner && isRoot) await chown(folder, owner.uid, owner.gid)
  return {
    path: (socket) => join(folder, socket),
    remove: () => removeMoveFolder(base, desktopId),
  }
}

/** Does nothing where the desktop has none. */
export function removeMoveFolder(base: string, desktopId: DesktopId): Promise<void> {
  return rm(folderIn(base, desktopId), { recursive: true, force: true })
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
      await new Promise<void>((resolve, reject) => {
        server.once('error', reject)
        server.listen(folder.path(stream), resolve)
      })
    }
  } catch (error) {
    close()
    throw error
  }
  return { [Symbol.dispose]: close }
}
