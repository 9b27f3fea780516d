// How much of the disk images may fill.
import { statfs } from 'node:fs/promises'

/** What stays free for the guests that run already when a wake needs an image. */
export const reserveBytes = 1024 ** 3
const maxLowWaterBytes = 10 * 1024 ** 3
const lowWaterShare = 0.1

export async function freeBytes(folder: string): Promise<number> {
  const { bavail, bsize } = await statfs(folder)
  return bavail * bsize
}

/** With less than this free, unused images are removed, and none is fetched ahead of need. */
export async function lowWaterBytes(folder: string): Promise<number> {
  const { blocks, bsize } = await statfs(folder)
  return Math.min(maxLowWaterBytes, blocks * bsize * lowWaterShare)
}
