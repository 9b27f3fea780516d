// cp -r out of a desktop: every file and folder with its mode, and on after an interruption.
import { createWriteStream } from 'node:fs'
import { chmod, mkdir, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { type Client, DormouseError, type EntryJson } from '@dormouse/client'
import type { Context } from '../context.ts'
import { CliError } from '../failures.ts'
import type { GuestPlace } from '../guest-place.ts'
import type { Progress } from '../progress.ts'
import { fewAtOnce, permissionsOf, persistently, type Tree } from './copying.ts'

/** As deep as one listing reaches. */
const depthMax = 32
const pageSize = 1_000

interface Wanted {
  entry: EntryJson
  /** Here. */
  path: string
}

/** `to` becomes the folder, whether or not it exists. */
export async function copyFolderOut(context: Context, from: GuestPlace, to: string): Promise<Tree> {
  const { signal } = context.terminal
  const client = context.customer()
  const root = `/${from.path.replace(/^\/+|\/+$/g, '')}`
  const [folders, files, skipped]: [Wanted[], Wanted[], string[]] = [[], [], []]
  for await (const entry of entriesBelow(client, from.id, root, signal)) {
    const isCopied = entry.exact_path && (entry.type === 'directory' || entry.type === 'file')
    if (!isCopied) skipped.push(entry.path)
    else (entry.type === 'file' ? files : folders).push({ entry, path: join(to, nameBelow(root, entry.path)) })
  }
  const size = files.reduce((sum, { entry }) => sum + entry.size, 0)
  const progress = context.terminal.progress(root, size)
  try {
    await mkdir(to, { recursive: true })
    for (const { path } of folders) await mkdir(path, { recursive: true })
    await fewAtOnce(files, (file) => fetchFile(client, from.id, file, { progress, signal }))
    // Last, and the deepest first: a mode may forbid to write there.
    for (const { entry, path } of folders.reverse()) await chmod(path, permissionsOf(Number.parseInt(entry.mode, 8)))
  } finally {
    progress.end()
  }
  return { path: to, files: files.length, folders: folders.length + 1, size, skipped }
}

async function* entriesBelow(
  client: Client,
  id: string,
  folder: string,
  signal: AbortSignal,
): AsyncGenerator<EntryJson> {
  let cursor: string | undefined
  const start = folder === '/' ? 1 : folder.split('/').length
  do {
    const query = { path: folder, depth: depthMax, limit: pageSize, cursor }
    const page = await persistently(signal, () => client.listEntries(id, query, { signal }))
    for (const entry of page.entries) {
      yield entry
      const isDeepest = entry.path.split('/').length - start === depthMax
      if (isDeepest && entry.type === 'directory' && entry.exact_path)
        yield* entriesBelow(client, id, entry.path, signal)
    }
    cursor = page.next_cursor ?? undefined
  } while (cursor !== undefined)
}

/** A guest is not trusted: no name leads out of the folder. */
function nameBelow(root: string, path: string): string {
  const start = root === '/' ? '/' : `${root}/`
  const name = path.startsWith(start) ? path.slice(start.length) : ''
  if (name === '' || name.split('/').some((part) => part === '..' || part === '' || part === '.'))
    throw new CliError(
      `the desktop has listed a path that is not in the folder: ${JSON.stringify(path)}`,
      'nothing was copied',
    )
  return name
}

interface FetchOptions {
  progress: Progress
  signal: AbortSignal
}

/** Goes on from where it was cut, and begins again if the file was changed meanwhile. */
async function fetchFile(client: Client, id: string, { entry, path }: Wanted, { progress, signal }: FetchOptions) {
  const part = `${path}.${process.pid}.part`
  let [counted, version]: [number, string | undefined] = [0, undefined]
  const count = async function* (source: AsyncIterable<Uint8Array>) {
    for await (const bytes of source) {
      counted += bytes.length
      progress.add(bytes.length)
      yield bytes
    }
  }
  const attempt = async () => {
    // What was received but not written is lost with its connection.
    const offset = await sizeOf(part)
    const found = await client.readFilePart(id, entry.path, { offset, version, signal }).catch(unlessAtEnd)
    if (found) version = found.version
    const start = found ? found.offset : offset
    progress.add(start - counted)
    counted = start
    const source: AsyncIterable<Uint8Array> = found?.stream ?? new Blob([]).stream()
    await pipeline(source, count, createWriteStream(part, { flags: start === 0 ? 'w' : 'a' }), { signal })
  }
  try {
    await persistently(signal, attempt, () => counted)
    await chmod(part, permissionsOf(Number.parseInt(entry.mode, 8)))
    await rename(part, path)
  } catch (error) {
    await rm(part, { force: true })
    throw error
  }
}

const sizeOf = (file: string) =>
  stat(file).then(
    ({ size }) => size,
    () => 0,
  )

/** Undefined where nothing is left to read: the file is empty, or the cut came after its last byte. */
function unlessAtEnd(error: unknown): undefined {
  if (error instanceof DormouseError && error.code === 'range_not_satisfiable') return undefined
  throw error
}
