// What the disk itself costs: an append of 4 KiB and its fsync.
import { closeSync, fsyncSync, openSync, rmSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { median } from './statistics.ts'

const times = 200

/** The median, in milliseconds. */
export function fsyncMsIn(folder: string): number {
  const path = join(folder, 'fsync')
  const file = openSync(path, 'w')
  const block = Buffer.alloc(4_096, 1)
  const all = Array.from({ length: times }, () => {
    const began = performance.now()
    writeSync(file, block)
    fsyncSync(file)
    return performance.now() - began
  })
  closeSync(file)
  rmSync(path)
  return Number(median(all).toPrecision(3))
}
