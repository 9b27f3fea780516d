// What a host can take in all: as the operator set it, else as the machine is.
import { statfs } from 'node:fs/promises'
import { dirname } from 'node:path'
import type { LibvirtHost } from '@dormouse/node-libvirt'
import { unlessMissing } from '../../mechanics/durable-file.ts'
import type { DriverFacts } from '../driver.ts'

/** As the operator set it; undefined if the machine decides. */
export interface CapacitySettings {
  processors: number | undefined
  memoryMiB: number | undefined
  diskGiB: number | undefined
}

const gib = 1024 ** 3

/** How many bytes the folder's file system has free for the agent, also before the folder is made. */
export async function freeBytes(folder: string): Promise<number> {
  const found = await statfs(folder).catch(unlessMissing)
  if (!found) return freeBytes(dirname(folder))
  return found.bavail * found.bsize
}

/** The host's capacity, and how much of its disk is free. */
export async function capacityOf(
  host: LibvirtHost,
  disksDir: string,
  settings: CapacitySettings,
): Promise<Pick<DriverFacts, 'processors' | 'capacity' | 'freeDiskGiB'>> {
  const { cpus, memoryKiB } = await host.nodeInfo()
  const { blocks, bsize } = await statfs(disksDir)
  return {
    processors: settings.processors ?? cpus,
    capacity: {
      memoryMiB: settings.memoryMiB ?? Math.floor((memoryKiB / 1024) * 0.8),
      // Overlays are thin: far less is written than is offered.
      diskGiB: settings.diskGiB ?? Math.floor((blocks * bsize * 4) / gib),
    },
    freeDiskGiB: Math.floor((await freeBytes(disksDir)) / gib),
  }
}
