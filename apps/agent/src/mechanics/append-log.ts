// A file to which records are appended. All records that wait at a moment are written as one frame and synced together, so
// many callers share one sync. A full file is replaced by a snapshot. Knows nothing of the records.
import { ftruncateSync, readFileSync, renameSync, statfsSync, writeSync } from 'node:fs'
import { type FileHandle, open, rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { StartError } from '@dormouse/process'
import { syncData, syncPath } from './durable-file.ts'
import { isFull } from './full-disk.ts'
import { emptySpace, frameOf, headOf, type LogContent, readLog } from './log-frames.ts'

const kib = 1024
/** Space for frames, made with the file: an append then needs no free block and changes no metadata. */
const minSpaceBytes = 1024 * kib
/** The last part of that space, for records that use the reserve. */
const reserveBytes = 256 * kib
const maxFrameBytes = 128 * kib
/** What a copy-on-write file system gets back at a time: there an overwrite needs a free block, too. */
const shrinkBytes = 64 * kib

export interface AppendLogOptions {
  path: string
  /** All current records, as JSON texts. A record that changes meanwhile is appended, too. */
  snapshot: () => Iterable<string>
  /** Called before each sync, and at each step of replacing the file. */
  hit: (name: string) => Promise<void>
}

export interface AppendOptions {
  /** Called when the record is written, and on the disk unless it is `unsynced`. No later record is written before. */
  onWritten?: () => void
  /** The record need not be on the disk: it is synced together with the next record that is, or by `synced`. */
  unsynced?: boolean
  /** The record may use the reserve. */
  useReserve?: boolean
}

interface Waiting extends AppendOptions {
  record: string
  resolve: () => void
  reject: (error: unknown) => void
}

/** What an earlier process has written; undefined if there is no log. Throws, with the file's name, if it is damaged. */
export function readLogFile(path: string): LogContent | undefined {
  try {
    return readLog(readFileSync(path))
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException
    if (code === 'ENOENT') return undefined
    throw new StartError(`the journal ${path} cannot be read: ${message}; restore it, or move it out of the folder`, {
      cause,
    })
  }
}

export class AppendLog {
  readonly #options: AppendLogOptions
  #file: FileHandle | undefined
  #sizeBytes = 0
  #endBytes = 0
  /** The number of the last frame, and of the last one that is known to be synced. */
  #written = 0
  #synced = 0
  /** How many records were appended, and how many of those are on the disk, since the log was opened. */
  #appended = 0
  #durable = 0
  #waiting: Waiting[] = []
  #syncing: PromiseWithResolvers<void>[] = []
  #refill: PromiseWithResolvers<void> | undefined
  #running: Promise<void> | undefined
  #reserveUsed = false
  #failure: Error | undefined
  #closed = false

  private constructor(options: AppendLogOptions) {
    this.#options = options
  }

  /**
   * Writes a snapshot of what was read, so nothing depends on pages that an earlier process wrote and did not sync. On a full
   * disk it continues in the old file instead.
   */
  static async open(options: AppendLogOptions, old: LogContent | undefined): Promise<AppendLog> {
    const log = new AppendLog(options)
    try {
      await log.#replace()
    } catch (error) {
      if (!isFull(error)) throw error
      if (old) await log.#continue(old)
      else await log.#replace(reserveBytes)
    }
    return log
  }

  /** Whether the reserve is whole, and the disk has space to replace the file. */
  get hasReserve(): boolean {
    return !this.#reserveUsed && freeBytes(dirname(this.#options.path)) >= this.#sizeBytes
  }

  /** Makes the reserve whole again; returns false if the disk has no space for it. */
  async refillReserve(): Promise<boolean> {
    if (this.#reserveUsed && !this.#closed) {
      this.#refill ??= Promise.withResolvers()
      this.#start()
      await this.#refill.promise
    }
    return this.hasReserve
  }

  /** Resolves when the record is on the disk. Throws ENOSPC if there is no space for it. */
  append(record: string, options: AppendOptions = {}): Promise<void> {
    if (this.#closed) return Promise.reject(new Error('the journal is closed'))
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    this.#waiting.push({ record, ...options, resolve, reject })
    this.#start()
    return promise
  }

  /** How many records were written since the log was opened. */
  get appended(): number {
    return this.#appended
  }

  /** Resolves when the first `records` of these are on the disk. */
  async synced(records: number): Promise<void> {
    if (records <= this.#durable) return
    const waiting = Promise.withResolvers<void>()
    this.#syncing.push(waiting)
    this.#start()
    await waiting.promise
  }

  /** Why nothing is written any more. */
  get failure(): Error | undefined {
    return this.#failure
  }

  /** Writes what waits, and closes the file. */
  async close(): Promise<void> {
    this.#closed = true
    await this.#running
    await this.#file?.close()
    this.#file = undefined
  }

  #start(): void {
    this.#running ??= this.#run().finally(() => {
      this.#running = undefined
    })
  }

  async #run(): Promise<void> {
    // Records of the same turn of the event loop share a frame.
    await nextTurn()
    while (this.#waiting.length > 0 || this.#syncing.length > 0 || this.#refill) {
      if (this.#refill) await this.#refillNow(this.#refill)
      const syncing = this.#syncing.splice(0)
      const batch = this.#take()
      try {
        await this.#write(batch)
      } catch (error) {
        for (const { reject } of batch) reject(error)
      }
      if (syncing.length > 0) await this.#settle(syncing)
    }
  }

  /** For those who wait for the sync of records that are written. The sync of the last frame may have included them. */
  async #settle(syncing: PromiseWithResolvers<void>[]): Promise<void> {
    try {
      if (this.#failure) throw this.#failure
      if (this.#durable < this.#appended) await this.#sync()
      for (const { resolve } of syncing) resolve()
    } catch (error) {
      for (const { reject } of syncing) reject(error)
    }
  }

  async #refillNow({ resolve, reject }: PromiseWithResolvers<void>): Promise<void> {
    this.#refill = undefined
    await this.#replaced().then(() => resolve(), reject)
  }

  /** The records of the next frame: at least one if any waits. */
  #take(): Waiting[] {
    let bytes = 0
    const end = this.#waiting.findIndex(({ record }, at) => {
      bytes += record.length
      return at > 0 && bytes > maxFrameBytes
    })
    return this.#waiting.splice(0, end < 0 ? this.#waiting.length : end)
  }

  /** Rejects by itself the records for which there is no space. */
  async #write(batch: Waiting[]): Promise<void> {
    if (batch.length === 0) return
    if (this.#failure) throw this.#failure
    const frame = this.#frame(batch)
    if (this.#fits(frame, reserveBytes)) return this.#writeFrame(frame, batch)
    if (await this.#replaced()) return this.#writeFrame(this.#frame(batch), batch)
    const allowed = batch.filter(({ useReserve }) => useReserve)
    const fit = this.#fits(this.#frame(allowed), 0) ? allowed : []
    for (const { reject } of batch.filter((waiting) => !fit.includes(waiting))) reject(noSpace())
    if (fit.length > 0) await this.#writeFrame(this.#frame(fit), fit)
  }

  #frame(batch: Waiting[]): Buffer {
    const records = batch.map(({ record }) => record)
    return Buffer.from(frameOf(this.#written + 1, this.#synced, records))
  }

  #fits(frame: Buffer, keepBytes: number): boolean {
    return this.#endBytes + frame.length <= this.#sizeBytes - keepBytes
  }

  /** The write only copies to the page cache, on this thread. The sync, which may take long, runs in the thread pool. */
  async #writeFrame(frame: Buffer, batch: Waiting[]): Promise<void> {
    const mayShrink = batch.some(({ useReserve }) => useReserve)
    if (mayShrink) this.#reserveUsed = true
    try {
      this.#writeAt(frame, mayShrink)
    } catch (error) {
      throw isFull(error) ? error : this.#fail(error)
    }
    this.#appended += batch.length
    if (!batch.every(({ unsynced }) => unsynced)) await this.#sync()
    for (const { onWritten } of batch) onWritten?.()
    for (const { resolve } of batch) resolve()
  }

  async #sync(): Promise<void> {
    try {
      await this.#options.hit('journal.before-sync')
      await syncData(this.#file!.fd)
    } catch (error) {
      throw this.#fail(error)
    }
    this.#synced = this.#written
    this.#durable = this.#appended
  }

  #writeAt(bytes: Buffer, mayShrink: boolean): void {
    const { fd } = this.#file!
    for (;;) {
      try {
        writeAll(fd, bytes, this.#endBytes)
        break
      } catch (error) {
        const smaller = this.#sizeBytes - shrinkBytes
        if (!isFull(error) || !mayShrink || smaller < this.#endBytes + bytes.length) throw error
        ftruncateSync(fd, smaller)
        this.#sizeBytes = smaller
      }
    }
    this.#endBytes += bytes.length
    this.#sizeBytes = Math.max(this.#sizeBytes, this.#endBytes)
    this.#written += 1
  }

  /** After a failed sync nobody knows what is on the disk, and a second sync may report success. So nothing is written any more. */
  #fail(cause: unknown): Error {
    const { path } = this.#options
    const why = cause instanceof Error ? cause.message : String(cause)
    this.#failure = new Error(
      `the journal ${path} cannot be written: ${why}; restart the agent when the disk is repaired`,
      {
        cause,
      },
    )
    return this.#failure
  }

  /** Whether the file was replaced; false if the disk is full. */
  async #replaced(): Promise<boolean> {
    try {
      await this.#replace()
      return true
    } catch (error) {
      if (isFull(error)) return false
      throw this.#fail(error)
    }
  }

  /** Until the rename the old file counts, from then on the new one. Both contain every record that was acknowledged. */
  async #replace(spaceBytes?: number): Promise<void> {
    const { path, hit } = this.#options
    const temporary = `${path}.new`
    const { bytes, frames } = await this.#snapshot()
    const space = emptySpace(spaceBytes ?? Math.max(minSpaceBytes, 2 * bytes.length))
    const file = await open(temporary, 'w', 0o600)
    try {
      await file.writeFile(Buffer.concat([bytes, space]))
      await hit('journal.replace.written')
      await file.sync()
      await hit('journal.replace.synced')
      renameSync(temporary, path)
      await hit('journal.replace.renamed')
      await syncPath(dirname(path))
    } catch (error) {
      await file.close()
      if (isFull(error)) await rm(temporary, { force: true })
      throw error
    }
    await this.#file?.close()
    this.#use(file, { frames, endBytes: bytes.length, sizeBytes: bytes.length + space.length })
    this.#reserveUsed = false
  }

  async #snapshot(): Promise<{ bytes: Buffer; frames: number }> {
    const frames: string[] = []
    let records: string[] = []
    let length = 0
    const end = () => {
      frames.push(frameOf(frames.length + 1, 0, records))
      records = []
      length = 0
    }
    for (const record of this.#options.snapshot()) {
      records.push(record)
      length += record.length
      if (length < maxFrameBytes) continue
      end()
      await nextTurn()
    }
    if (records.length > 0) end()
    return { bytes: Buffer.from(headOf(frames.length) + frames.join('')), frames: frames.length }
  }

  /** Writes over the old file what it already contains, without its incomplete tail. So a crash at any moment changes nothing. */
  async #continue({ bytes, frames, endBytes }: LogContent): Promise<void> {
    const file = await open(this.#options.path, 'r+')
    writeAll(file.fd, Buffer.concat([bytes.subarray(0, endBytes), emptySpace(bytes.length - endBytes)]), 0)
    await file.datasync()
    this.#use(file, { frames, endBytes, sizeBytes: bytes.length })
    this.#reserveUsed = true
  }

  #use(file: FileHandle, at: { frames: number; endBytes: number; sizeBytes: number }): void {
    this.#file = file
    this.#written = at.frames
    this.#synced = at.frames
    this.#durable = this.#appended
    this.#endBytes = at.endBytes
    this.#sizeBytes = at.sizeBytes
  }
}

const noSpace = () =>
  Object.assign(new Error('the journal has no space left, and the disk is full'), { code: 'ENOSPC' })

function writeAll(fd: number, bytes: Buffer, at: number): void {
  for (let done = 0; done < bytes.length; ) done += writeSync(fd, bytes, done, bytes.length - done, at + done)
}

/** What this process may still write; root may use the blocks that are kept for it. */
function freeBytes(folder: string): number {
  const { bavail, bfree, bsize } = statfsSync(folder)
  return (process.getuid?.() === 0 ? bfree : bavail) * bsize
}
