// Makes folders, with the missing ones above them. Node's own `recursive` never returns if a file system takes no folders and
// reports that something is missing, as /proc does.
import { existsSync, mkdirSync, statSync } from 'node:fs'
import { dirname } from 'node:path'

/** Does nothing if it exists. It is synchronous because a folder takes microseconds, and a turn of the thread pool 100 times that. */
export function makeFolder(path: string, mode = 0o777): void {
  try {
    mkdirSync(path, { mode })
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'EEXIST' && statSync(path).isDirectory()) return
    const above = dirname(path)
    if (code !== 'ENOENT' || above === path || existsSync(above)) throw error
    makeFolder(above, mode)
    makeFolder(path, mode)
  }
}
