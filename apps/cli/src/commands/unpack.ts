// Unpacks the tar archive of a desktop's folder. Its guest is not trusted: no name leads out of the folder, nothing but files and
// folders is made, so that none is written through a link of the archive's, and memory does not grow with what it sends.
import { isUtf8 } from 'node:buffer'
import { createWriteStream } from 'node:fs'
import { chmod, copyFile, lstat, mkdir, realpath, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { type Extract, extract, type Header } from 'tar-stream'
import { CliError } from '../failures.ts'
import { permissionsOf, type Tree } from './copying.ts'

type Entry = Extract extends AsyncIterable<infer Each> ? Each : never

/** More names are only counted. */
const skippedMax = 1_000
/** Its owner may read, write and enter it. */
const open = 0o700

const namesAsBytes: object = { filenameEncoding: 'latin1' }

/** Unpacks into the folder `to`, which is there. `add` gets the number of bytes of files. */
export async function unpack(
  archive: AsyncIterable<Uint8Array>,
  to: string,
  { add, signal }: { add(bytes: number): void; signal: AbortSignal },
): Promise<Tree> {
  const entries = extract(namesAsBytes)
  // Whatever fails then, this is why.
  let wrong: unknown
  entries.once('error', (error) => {
    wrong = error
  })
  const unpacking = new Unpacking(to, add)
  const done = await Promise.allSettled([unpacking.take(entries), pipeline(archive, entries, { signal })])
  const failed = done.find((each) => each.status === 'rejected')
  if (failed) throw asNoArchive(wrong ?? failed.reason)
  return unpacking.tree
}

class Unpacking {
  readonly tree: Tree
  readonly #add: (bytes: number) => void
  /** Modes that would forbid to write below, the deepest last. */
  readonly #closed: [path: string, mode: number][] = []

  constructor(to: string, add: (bytes: number) => void) {
    this.tree = { path: to, files: 0, folders: 1, size: 0, skipped: [], skippedCount: 0 }
    this.#add = add
  }

  async take(entries: AsyncIterable<Entry>): Promise<void> {
    for await (const entry of entries) {
      const name = nameOf(entry.header, 'name')
      const take = name === undefined ? undefined : this.#taker(entry.header.type)
      if (name === undefined || !(await take?.call(this, entry, name))) this.#skip(name ?? entry.header.name)
      entry.resume()
    }
    for (const [path, mode] of this.#closed.reverse()) await chmod(path, mode)
  }

  #taker(type: Header['type']) {
    if (type === 'directory') return this.#folder
    if (type === 'link') return this.#hardLink
    return type === 'file' || type === 'contiguous-file' ? this.#file : undefined
  }

  #skip(name: string): void {
    this.tree.skippedCount++
    if (this.tree.skipped.length < skippedMax) this.tree.skipped.push(name)
  }

  async #folder({ header }: Entry, name: string): Promise<boolean> {
    if (name === '') return true
    const path = join(this.tree.path, name)
    await mkdir(path, { recursive: true })
    this.tree.folders++
    const mode = permissionsOf(header.mode ?? 0o755)
    if ((mode & open) === open) await chmod(path, mode)
    else this.#closed.push([path, mode])
    return true
  }

  async #file(entry: Entry, name: string): Promise<boolean> {
    const add = (bytes: number) => this.#count(bytes)
    const counted = async function* () {
      for await (const bytes of entry as AsyncIterable<Buffer>) {
        add(bytes.length)
        yield bytes
      }
    }
    const mode = permissionsOf(entry.header.mode ?? 0o644)
    await this.#place(name, mode, (part) => pipeline(counted, createWriteStream(part, { flags: 'wx' })))
    return true
  }

  /** A copy of a file that is there: a link would join what somebody changes later. */
  async #hardLink({ header }: Entry, name: string): Promise<boolean> {
    const source = nameOf(header, 'linkname')
    if (!source) return false
    const from = join(this.tree.path, source)
    const found = await lstat(from).catch(() => undefined)
    if (!found?.isFile() || !(await this.#isBelow(from))) return false
    await this.#place(name, permissionsOf(found.mode), (part) => copyFile(from, part))
    this.#count(found.size)
    return true
  }

  async #isBelow(path: string): Promise<boolean> {
    const [real, root] = await Promise.all([realpath(path), realpath(this.tree.path)])
    return real.startsWith(root === '/' ? root : `${root}/`)
  }

  /** Whole or not at all. */
  async #place(name: string, mode: number, write: (part: string) => Promise<void>): Promise<void> {
    if (name === '') throw leadsOut(name)
    const path = join(this.tree.path, name)
    const part = `${path}.${process.pid}.part`
    await mkdir(dirname(path), { recursive: true })
    try {
      await write(part)
      await chmod(part, mode)
      await rename(part, path)
    } catch (error) {
      await rm(part, { force: true })
      throw error
    }
    this.tree.files++
  }

  #count(bytes: number): void {
    this.tree.size += bytes
    this.#add(bytes)
  }
}

/** Below the folder; empty for the folder itself. Undefined if it is not text; throws if it leads out. */
function nameOf(header: Header, which: 'name' | 'linkname'): string | undefined {
  const posix = header.pax as { path?: string; linkpath?: string } | null | undefined
  const ofPosix = which === 'name' ? posix?.path : posix?.linkpath
  const bytes = ofPosix === undefined ? Buffer.from(header[which] ?? '', 'latin1') : Buffer.from(ofPosix)
  const text = bytes.toString('utf8')
  if (text.startsWith('/') || text.includes('\0') || text.split('/').includes('..')) throw leadsOut(text)
  if (!isUtf8(bytes) || text.includes('\ufffd')) return undefined
  return text
    .split('/')
    .filter((part) => part !== '' && part !== '.')
    .join('/')
}

const leadsOut = (name: string) =>
  new CliError(
    `the desktop has sent a name that is not in the folder: ${JSON.stringify(name.slice(0, 300))}`,
    'do not trust this desktop; what was copied before is complete',
  )

/** What tar-stream finds wrong has neither a kind nor a code of its own. */
function asNoArchive(error: unknown): unknown {
  const isOfTar =
    error instanceof Error && /^(Invalid (tar )?header|Header exceeds|Unexpected end of data)/.test(error.message)
  return isOfTar ? new CliError(`the desktop did not send a tar archive (${error.message})`, 'retry') : error
}
