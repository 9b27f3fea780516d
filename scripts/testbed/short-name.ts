// A short name for a deep folder: a socket path must stay under 108 bytes, wherever the data is.
//
// As root the name is a link below /run, and inside a private host the same path is a mount of the folder. For other users
// it is a link in /tmp, if no other user can remove it.

import { randomBytes } from 'node:crypto'
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'

/** Returns a link to the folder, such as `/run/dormouse-<id>`. The id is kept in the folder, so that the folder can be moved. */
export function giveShortName(dir: string): string {
  mkdirSync(dir, { recursive: true, mode: 0o700 })
  const target = realpathSync(dir)
  const shortDir = `${process.getuid?.() === 0 ? '/run/dormouse' : '/tmp/dm'}-${idOf(target)}`
  const now = linkTarget(shortDir)
  if (now === target) return shortDir
  if (now && existsSync(now) && idOf(now) === idOf(target)) {
    throw new Error(
      `${target} is a copy of ${now}, which still exists; delete ${join(target, 'short-name')} to give the copy a name of its own`,
    )
  }
  if (now) unlinkSync(shortDir)
  symlinkSync(target, shortDir)
  return shortDir
}

/** Removes the short name; the folder stays. */
export function dropShortName(shortDir: string): void {
  if (linkTarget(shortDir)) unlinkSync(shortDir)
}

function idOf(dir: string): string {
  const file = join(dir, 'short-name')
  if (!existsSync(file)) writeFileSync(file, `${randomBytes(4).toString('hex')}\n`)
  return readFileSync(file, 'utf8').trim()
}

function linkTarget(path: string): string | undefined {
  const link = lstatSync(path, { throwIfNoEntry: false })
  return link?.isSymbolicLink() && link.uid === process.getuid?.() ? readlinkSync(path) : undefined
}
