// What copies to and from a desktop share: amounts as people read them, local files, and going on after an interruption.
import { stat } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { ConnectionError, RateLimitError, TimeoutError, UnavailableError } from '@dormouse/client'
import { CliError, exitCodes } from '../failures.ts'
import { seconds } from '../terminal.ts'

const mib = 1024 * 1024
/** A larger file goes in parts. */
export const oneRequestMaxBytes = 8 * mib
/** Pauses of a second and more between them: about a minute. */
const triesMax = 10
const longestPauseMs = 8_000

/** Bytes as people read them. */
export const amount = (bytes: number): string =>
  bytes < 1024 ? `${bytes} B` : bytes < mib ? `${(bytes / 1024).toFixed(1)} KiB` : `${(bytes / mib).toFixed(1)} MiB`

const rate = (bytes: number, ms: number) => `${amount(Math.round((bytes * 1_000) / Math.max(ms, 1)))}/s`

export const told = ({ path, size }: { path: string; size: number }, ms: number) =>
  `${path}  ${amount(size)} in ${seconds(ms)}, ${rate(size, ms)}\n`

/** What became of a folder. */
export interface Tree {
  path: string
  files: number
  folders: number
  size: number
  /** What is neither file nor folder, or has a name that is not text; the first thousand. */
  skipped: string[]
  skippedCount: number
}

export const toldTree = ({ path, files, folders, size, skippedCount }: Tree, ms: number) =>
  `${path}  ${files} files, ${folders} folders, ${amount(size)} in ${seconds(ms)}, ${rate(size, ms)}${skippedCount > 0 ? `; ${skippedCount} skipped` : ''}\n`

export async function look(file: string): Promise<{ size: number; mode: number; isFile: boolean; isFolder: boolean }> {
  const found = await stat(file).catch((error: NodeJS.ErrnoException) => {
    throw unreadable(file, error)
  })
  return { size: found.size, mode: found.mode, isFile: found.isFile(), isFolder: found.isDirectory() }
}

export const unreadable = (file: string, { code }: NodeJS.ErrnoException) =>
  new CliError(`${file} cannot be read (${code})`, 'check its name and its permissions', exitCodes.usage)

/** Without the bits that lend a file's owner to who runs it: on the other side that is somebody else. */
export const permissionsOf = (mode: number): number => mode & 0o777

export const octalOf = (mode: number): string => `0${permissionsOf(mode).toString(8).padStart(3, '0')}`

/** Repeats what fails for a reason that passes. */
export async function persistently<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await work()
    } catch (error) {
      signal.throwIfAborted()
      if (!passes(error)) throw error
      if (tries >= triesMax) throw error
      await sleep(Math.min(500 * 2 ** tries, longestPauseMs), undefined, { signal })
    }
  }
}

/** fetch reports a connection that is lost in the middle of a body as TypeError. */
const passes = (error: unknown) =>
  [ConnectionError, UnavailableError, TimeoutError, RateLimitError, TypeError].some((kind) => error instanceof kind)

/** A failure of the disk or the folder here, which has a code. */
export function localFailure(error: unknown): unknown {
  const { code, message, syscall } = error as NodeJS.ErrnoException
  return code && syscall ? new CliError(message, 'free space, or name another folder; then copy again') : error
}
