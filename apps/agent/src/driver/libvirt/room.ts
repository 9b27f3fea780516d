// What a host has room for, as far as nobody has set it.
import { statfs } from 'node:fs/promises'
import type { LibvirtHost } from '@dormouse/node-libvirt'
import type { DriverFacts } from '../driver.ts'

export interface OwnCapacity {
  processors: number | undefined
  memoryMiB: number | undefined
  diskGiB: number | undefined
}

const gib = 1024 ** 3

/** How many bytes the file system of a folder has left for us. */
export async function freeBytes(folder: string): Promise<number> {
  const { bavail, bsize } = await statfs(folder)
  return bavail * bsize
}

/** What the host can take in all, and how many of its disk's bytes are left. */
export async function roomOf(
  host: LibvirtHost,
  disksDir: string,
  own: OwnCapacity,
): Promise<Pick<DriverFacts, 'processors' | 'capacity' | 'freeDiskGiB'>> {
  const { cpus, memoryKiB } = await host.nodeInfo()
  const { blocks, bsize } = await statfs(disksDir)
  return {
    processors: own.processors ?? cpus,
    capacity: {
      memoryMiB: own.memoryMiB ?? Math.floor((memoryKiB / 1024) * 0.8),
      // Overlays are thin: far less is written than is offered.
      diskGiB: own.diskGiB ?? Math.floor((blocks * bsize * 4) / gib),
    },
    freeDiskGiB: Math.floor((await freeBytes(disksDir)) / gib),
  }
}
