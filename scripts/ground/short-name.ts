// A short name for a deep folder: socket paths must stay under 108 bytes wherever the data lies. Knows nothing of what is
// in the folder. For root the name is a link below /run outside, and the folder itself, mounted, inside a private host: equal
// in both. For anybody else it is a link in /tmp, from where nobody else can take it away.

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

/** Answers `/run/dormouse-<id>` or the like, which leads to the folder. The id is kept in the folder, so that it may be moved. */
export function giveShortName(dir: string): string {
  mkdirSync(dir, { recursive: true, mode: 0o700 })
  const target = realpathSync(dir)
  const shortDir = `${process.getuid?.() === 0 ? '/run/dormouse' : '/tmp/dm'}-${idOf(target)}`
  const now = linkTarget(shortDir)
  if (now === target) return shortDir
  if (now && existsSync(now) && idOf(now) === idOf(target)) {
    throw new Error(
      `${target} is a copy of ${now}, which is still there. Delete ${join(target, 'short-name')} to tell them apart.`,
    )
  }
  if (now) unlinkSync(shortDir)
  symlinkSync(target, shortDir)
  return shortDir
}

/** Takes the short name back; the folder stays. */
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
