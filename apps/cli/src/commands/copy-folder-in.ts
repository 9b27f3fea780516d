// cp -r into a desktop: every file and folder with its mode, as one tar archive.
import { type FileHandle, open, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Context } from '../context.ts'
import { CliError } from '../failures.ts'
import type { GuestPlace } from '../guest-place.ts'
import { archiveEnd, padding, tarHeader } from '../tar-header.ts'
import { look, permissionsOf, persistently, type Tree, unreadable } from './copying.ts'

interface Found {
  /** With slashes, below the folder; empty for the folder itself. */
  name: string
  size: number
  mode: number
}

interface Local {
  folders: Found[]
  files: Found[]
  skipped: string[]
}

/** A file up to this size is read whole, since some have another size than they report. */
const wholeMaxBytes = 1024 * 1024
/** Small pieces are sent together. */
const pieceBytes = 256 * 1024

/** `to.path` becomes the folder, whether or not it exists. */
export async function copyFolderIn(context: Context, from: string, to: GuestPlace): Promise<Tree> {
  const local: Local = { folders: [], files: [], skipped: [] }
  await walk(from, '', local)
  const size = local.files.reduce((sum, file) => sum + file.size, 0)
  const target = `/${to.path.replace(/^\/+|\/+$/g, '')}`
  const progress = context.terminal.progress(from, size)
  const [client, { signal }] = [context.customer(), context.terminal]
  const attempt = async () => {
    let [sent, failure]: [number, unknown] = [0, undefined]
    const add = (bytes: number) => {
      sent += bytes
      progress.add(bytes)
    }
    const archive = together(archiveOf(from, local, add), (error) => {
      failure = error
    })
    const written = client.writeArchive(to.id, target, ReadableStream.from(archive), { signal })
    await written.catch((error: unknown) => {
      progress.add(-sent)
      throw failure ?? error
    })
  }
  try {
    await persistently(signal, attempt)
  } finally {
    progress.end()
  }
  const { folders, files, skipped } = local
  return { path: target, files: files.length, folders: folders.length, size, skipped, skippedCount: skipped.length }
}

/** Folders come before what is in them. */
async function* archiveOf(root: string, { folders, files }: Local, add: (bytes: number) => void) {
  const mtime = new Date()
  for (const { name, mode } of folders)
    yield tarHeader({ name: name === '' ? './' : `./${name}/`, mode: permissionsOf(mode), size: 0, mtime })
  for (const { name } of files) {
    const path = join(root, name)
    try {
      await using file = await open(path)
      const { size, mode } = await file.stat()
      const whole = size <= wholeMaxBytes ? await file.readFile() : undefined
      const length = whole?.length ?? size
      yield tarHeader({ name: `./${name}`, mode: permissionsOf(mode), size: length, mtime })
      for await (const bytes of whole ? [whole] : contentOf(file, path, size)) {
        add(bytes.length)
        yield bytes
      }
      yield padding(length)
    } catch (error) {
      throw error instanceof CliError ? error : unreadable(path, error as NodeJS.ErrnoException)
    }
  }
  yield archiveEnd
}

/** As many bytes as were announced. */
async function* contentOf(file: FileHandle, path: string, size: number): AsyncGenerator<Buffer> {
  let left = size
  for await (const bytes of file.createReadStream({ end: size - 1, autoClose: false, highWaterMark: pieceBytes })) {
    left -= bytes.length
    yield bytes
  }
  if (left > 0) throw new CliError(`${path} became shorter while it was read`, 'nothing was copied; retry')
}

/** Joins small pieces, and reports a failure: its stream's reader gets another error. */
async function* together(pieces: AsyncGenerator<Buffer>, failed: (error: unknown) => void): AsyncGenerator<Uint8Array> {
  let [held, size]: [Buffer[], number] = [[], 0]
  try {
    for await (const piece of pieces) {
      held.push(piece)
      size += piece.length
      if (size < pieceBytes) continue
      yield Buffer.concat(held)
      held = []
      size = 0
    }
    yield Buffer.concat(held)
  } catch (error) {
    failed(error)
    throw error
  }
}

/** Folders come before what is in them. Links are not followed. */
async function walk(root: string, name: string, found: Local): Promise<void> {
  const { mode } = await look(join(root, name))
  found.folders.push({ name, size: 0, mode })
  const entries = await readdir(join(root, name), { withFileTypes: true }).catch((error: NodeJS.ErrnoException) => {
    throw unreadable(join(root, name), error)
  })
  for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
    const below = name === '' ? entry.name : `${name}/${entry.name}`
    if (entry.name.includes('\ufffd')) found.skipped.push(below)
    else if (entry.isDirectory()) await walk(root, below, found)
    else if (entry.isFile()) found.files.push({ name: below, ...(await look(join(root, below))) })
    else found.skipped.push(below)
  }
}
