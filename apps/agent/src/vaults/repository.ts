// A vault's repository: snapshots of folders. Knows no desktop.
import { createWriteStream } from 'node:fs'
import { type Readable, Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { type ResticRun, restic, VaultError } from './restic.ts'
import type { Vault } from './vault-files.ts'

export interface RepositoryOptions {
  vault: Vault
  cacheDir: string
  limitKiBps?: number | undefined
}

/** Files of a folder that are put into the vault together. */
export interface Backup {
  folder: string
  files: readonly string[]
  /** As restic records it; the same for all snapshots of one subject, whichever machine makes them. */
  host: string
  tags: readonly string[]
  /** Whose unchanged files are not read again. */
  parent: string | undefined
  progress?: (doneBytes: number, totalBytes: number) => void
}

export interface Snapshot {
  id: string
  /** The size of the files. */
  bytes: number
  /** What the vault did not have, before compression. */
  addedBytes: number
}

export interface FileToRead {
  name: string
  bytes: number
  /** Overwritten. */
  to: string
}

const longId = /^[0-9a-f]{64}$/

export class Repository {
  readonly vault: Vault
  readonly #options: RepositoryOptions

  constructor(options: RepositoryOptions) {
    this.vault = options.vault
    this.#options = options
  }

  /** Makes the repository unless there is one. */
  async ensure(signal: AbortSignal): Promise<void> {
    try {
      await this.look(signal)
    } catch (error) {
      if (!(error instanceof VaultError) || error.trouble !== 'missing') throw error
      await this.#run(['init', '--repository-version', '2'], signal)
    }
  }

  /** Throws if there is no repository, or it cannot be opened. */
  async look(signal: AbortSignal): Promise<void> {
    await this.#run(['cat', 'config'], signal)
  }

  /** A snapshot counts only if restic has read and stored every file: all names are in it. */
  async backup({ folder, files, host, tags, parent, progress }: Backup, signal: AbortSignal): Promise<Snapshot> {
    let summary: Record<string, unknown> | undefined
    const words = ['backup', '--host', host, ...tags.flatMap((tag) => ['--tag', tag])]
    const onLine = (line: Record<string, unknown>) => {
      if (line.message_type === 'summary') summary = line
      if (line.message_type === 'status') progress?.(Number(line.bytes_done ?? 0), Number(line.total_bytes ?? 0))
    }
    await this.#run([...words, ...(parent ? ['--parent', parent] : []), '--', ...files], signal, {
      cwd: folder,
      onLine,
    })
    const short = summary?.snapshot_id
    if (typeof short !== 'string') throw new VaultError('failed', 'restic ended without a summary')
    const { id, names } = await this.#contents(short, signal)
    const missing = files.find((file) => !names.has(`/${file}`))
    if (missing) throw new VaultError('failed', `the copy has no ${missing}`)
    return {
      id,
      bytes: Number(summary?.total_bytes_processed ?? 0),
      addedBytes: Number(summary?.data_added ?? 0),
    }
  }

  /** Writes one file of the snapshot. Fails if a part of it is damaged or gone, and if it has another size. */
  async read(id: string, { name, bytes, to }: FileToRead, signal: AbortSignal): Promise<void> {
    const output = (stdout: Readable) => pipeline(stdout, exactly(bytes), createWriteStream(to, { mode: 0o600 }))
    await this.#run(['dump', id, `/${name}`], signal, { output })
  }

  /** Removes snapshots; their data stays until `prune`. */
  async forget(ids: readonly string[], signal: AbortSignal): Promise<void> {
    if (ids.length > 0) await this.#run(['forget', ...ids], signal)
  }

  async prune(signal: AbortSignal): Promise<void> {
    await this.#run(['prune', '--max-unused', '10%'], signal)
  }

  /** Reads a part of all data, such as `3/30`. */
  async check(part: string, signal: AbortSignal): Promise<void> {
    await this.#run(['check', `--read-data-subset=${part}`], signal)
  }

  /** Removes the locks that this machine's ended processes have left. */
  async unlock(signal: AbortSignal): Promise<void> {
    await this.#run(['unlock'], signal)
  }

  async #contents(snapshot: string, signal: AbortSignal): Promise<{ id: string; names: Set<string> }> {
    const names = new Set<string>()
    let id: unknown
    const onLine = (line: Record<string, unknown>) => {
      if (line.struct_type === 'snapshot') id = line.id
      if (line.type === 'file') names.add(String(line.path))
    }
    await this.#run(['ls', snapshot], signal, { onLine })
    if (typeof id !== 'string' || !longId.test(id)) throw new VaultError('failed', 'restic lists no snapshot')
    return { id, names }
  }

  #run(
    words: string[],
    signal: AbortSignal,
    how: Partial<Pick<ResticRun, 'cwd' | 'onLine' | 'output'>> = {},
  ): Promise<void> {
    const { vault, cacheDir, limitKiBps } = this.#options
    return restic({ vault, words, cwd: cacheDir, cacheDir, signal, limitKiBps, ...how })
  }
}

/** A vault cannot make this host write more than was copied. */
function exactly(bytes: number): Transform {
  let left = bytes
  const wrong = () => new VaultError('damaged', 'the vault has a file of another size')
  return new Transform({
    transform: (chunk: Buffer, _encoding, done) => {
      left -= chunk.length
      if (left < 0) done(wrong())
      else done(null, chunk)
    },
    flush: (done) => (left === 0 ? done() : done(wrong())),
  })
}
