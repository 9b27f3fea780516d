// Small files that are written whole or not at all, even after a power cut. Knows nothing of their content.
import { closeSync, fdatasync, fsync, openSync } from 'node:fs'
import { open, readFile, rename, rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import { promisify } from 'node:util'
import { makeFolder } from '@dormouse/process'

let counter = 0

/** Writes a temporary file beside it, syncs it, renames it into place and syncs the folder. */
export async function writeDurably(path: string, text: string): Promise<void> {
  const temporary = `${path}.${process.pid}-${++counter}.tmp`
  try {
    const file = await open(temporary, 'w', 0o600)
    try {
      await file.writeFile(text)
      await file.sync()
    } finally {
      await file.close()
    }
    await rename(temporary, path)
  } catch (error) {
    await rm(temporary, { force: true })
    // A failed write names no file.
    throw Object.assign(error as Error, { path })
  }
  await syncPath(dirname(path))
}

/** Removes the file, if it is there, and syncs its folder. */
export async function removeDurably(path: string): Promise<void> {
  await rm(path, { force: true })
  await syncPath(dirname(path)).catch(unlessMissing)
}

/** Everything written to the file or folder before is on the disk when this returns. Only the sync waits for the thread pool. */
export async function syncPath(path: string): Promise<void> {
  const file = openSync(path, 'r')
  try {
    await sync(file)
  } finally {
    closeSync(file)
  }
}

const sync = promisify(fsync)

/** What was written to the open file before is on the disk when this resolves, with as much metadata as reading it takes. */
export const syncData = promisify(fdatasync)

/** The file's text, or undefined if there is none. */
export async function readIfThere(path: string): Promise<string | undefined> {
  return readFile(path, 'utf8').catch(unlessMissing)
}

/** Makes a folder that only its owner may enter; with 0711 others may open files whose names they know. */
export function privateFolder(path: string, mode = 0o700): string {
  makeFolder(path, mode)
  return path
}

/** For `.catch`: ignores "no such file". */
export function unlessMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error
}
