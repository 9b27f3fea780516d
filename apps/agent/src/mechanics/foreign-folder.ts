// Removes a folder in which another user may replace any name at any moment. A recursive removal by name would follow a link
// that takes the place of a folder in between.
import { randomUUID } from 'node:crypto'
import { constants } from 'node:fs'
import { open, readdir, rename, rmdir, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { unlessMissing } from './durable-file.ts'

const folderItself = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW

/**
 * Each folder is first taken from that user, so nothing in it can change any more. What is below moves up, so no depth matters.
 * The folder's own name must be out of that user's reach.
 */
export async function removeForeignFolder(path: string): Promise<void> {
  if (!(await take(path))) return
  for (let names = await namesIn(path); names.length > 0; names = await namesIn(path)) {
    for (const name of names) {
      const child = join(path, name)
      if ((await isUnlinked(child)) || !(await take(child))) continue
      for (const below of await namesIn(child)) {
        const from = join(child, below)
        if (!(await isUnlinked(from))) await rename(from, join(path, randomUUID())).catch(unlessMissing)
      }
      await rmdir(child).catch(unlessMissing)
    }
  }
  await rmdir(path).catch(unlessMissing)
}

/** The names in a folder that another call may remove at the same time. */
const namesIn = async (path: string): Promise<string[]> => (await readdir(path).catch(unlessMissing)) ?? []

/** Only this user can change what is in the folder when this returns; false if there is none. */
async function take(path: string): Promise<boolean> {
  const folder = await open(path, folderItself).catch(unlessMissing)
  if (!folder) return false
  try {
    await folder.chown(process.geteuid!(), process.getegid!())
    await folder.chmod(0o700)
  } finally {
    await folder.close()
  }
  return true
}

/** Never follows a link; false if it is a folder. */
async function isUnlinked(path: string): Promise<boolean> {
  try {
    await unlink(path)
    return true
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code !== 'EISDIR' && code !== 'ENOENT') throw error
    return code === 'ENOENT'
  }
}
