// Makes folders with all that are missing above them. Node's own `recursive` never returns where a file system makes none and says that
// something is missing, as /proc does.
import { existsSync, mkdirSync, statSync } from 'node:fs'
import { dirname } from 'node:path'

/** Does nothing where it is there. A folder takes microseconds; a turn of the thread pool takes a hundred times that. */
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
