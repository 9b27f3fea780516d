// Fetches one file of an image, and continues what an earlier try has left. A file counts once its digest is right and its
// bytes are on the disk.
import { createHash, type Hash } from 'node:crypto'
import { constants } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { Refusal, refuse } from '@dormouse/contract'
import { diskFull, isFull } from '../mechanics/full-disk.ts'
import type { ImageFile } from './fetchable.ts'
import { ProgressDeadline, type ProgressLimits } from './progress-deadline.ts'
import type { ImageSource, OpenedFile } from './sources.ts'

export interface FetchFileOptions {
  source: ImageSource
  limits: ProgressLimits
  /** `bytes` more of the file are here; negative if the file begins again. */
  progress(bytes: number): void
  /** Called in the middle of the file, for tests. */
  halfway(): Promise<void>
  signal: AbortSignal
}

const blockBytes = 1024 * 1024
const firstPauseMs = 100
/** How many tries in a row may bring nothing. */
const maxTries = 8

/** The file is whole, verified and synced at `path`. Refuses with `image_not_fetched` or `host_disk_full`. */
export async function fetchFile(wanted: ImageFile, path: string, options: FetchFileOptions): Promise<void> {
  const flags = constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW
  const file = await open(path, flags, 0o644).catch(diskFull)
  const part = new PartOfFile(file, wanted, options)
  try {
    const resumed = await part.takeUp()
    await part.complete()
    // What an earlier try has left may be damaged: a power cut loses what was not synced.
    if (resumed && !part.isRight()) {
      await part.beginAgain()
      await part.complete()
    }
    if (!part.isRight()) {
      await part.beginAgain()
      refuse('image_not_fetched', `the SHA-256 of ${wanted.file} is not the manifest’s`)
    }
    // QEMU's user reads it, whatever the agent's umask is.
    await file.chmod(0o644)
    await file.sync()
  } catch (error) {
    if (isFull(error)) diskFull(error)
    throw error
  } finally {
    await file.close()
  }
}

class PartOfFile {
  readonly #file: FileHandle
  readonly #wanted: ImageFile
  readonly #options: FetchFileOptions
  #hash: Hash = createHash('sha256')
  /** How many bytes are here and hashed. */
  #at = 0

  constructor(file: FileHandle, wanted: ImageFile, options: FetchFileOptions) {
    this.#file = file
    this.#wanted = wanted
    this.#options = options
  }

  isRight(): boolean {
    return this.#at === this.#wanted.size && this.#hash.copy().digest('hex') === this.#wanted.sha256
  }

  /** Reads what is here. Returns whether that is anything. */
  async takeUp(): Promise<boolean> {
    const { size } = await this.#file.stat()
    if (size > this.#wanted.size) await this.#file.truncate(0)
    const block = Buffer.allocUnsafe(blockBytes)
    for (;;) {
      this.#options.signal.throwIfAborted()
      const { bytesRead } = await this.#file.read(block, 0, blockBytes, this.#at)
      if (bytesRead === 0) return this.#at > 0
      this.#took(block.subarray(0, bytesRead))
    }
  }

  async beginAgain(): Promise<void> {
    await this.#file.truncate(0)
    this.#options.progress(-this.#at)
    this.#at = 0
    this.#hash = createHash('sha256')
  }

  /** Fetches the rest, over as many connections as that takes. */
  async complete(): Promise<void> {
    const { limits, signal } = this.#options
    using deadline = new ProgressDeadline(limits, () => stalled(this.#wanted.file, limits))
    const either = AbortSignal.any([signal, deadline.signal])
    let furthest = this.#at
    for (let tries = 0; this.#at < this.#wanted.size; ) {
      try {
        await this.#readOn(either, deadline)
      } catch (error) {
        either.throwIfAborted()
        if (error instanceof LocalFailure) throw error.cause
        if (error instanceof Refusal) throw error
        tries = this.#at > furthest ? 0 : tries + 1
        if (tries >= maxTries) refuse('image_not_fetched', `${this.#wanted.file}: ${(error as Error).message}`)
        await sleep(Math.min(limits.maxPauseMs, firstPauseMs * 2 ** tries), undefined, { signal: either })
      }
      furthest = Math.max(furthest, this.#at)
    }
  }

  /** Reads over one connection until the file is whole; throws if the connection ends before that. */
  async #readOn(signal: AbortSignal, deadline: ProgressDeadline): Promise<void> {
    const connection = new AbortController()
    const silence = setTimeout(
      () => connection.abort(new Error('no byte came in time')),
      this.#options.limits.silenceMs,
    )
    const either = AbortSignal.any([signal, connection.signal])
    try {
      const opened = await this.#options.source.open(this.#wanted.file, this.#at, either)
      if (opened.from !== this.#at) await this.beginAgain()
      await this.#take(opened, (bytes) => {
        silence.refresh()
        deadline.add(bytes)
      })
      if (this.#at < this.#wanted.size) throw new Error('the connection ended before the file was whole')
    } finally {
      clearTimeout(silence)
      connection.abort(new Error('the file is whole'))
    }
  }

  async #take({ bytes }: OpenedFile, came: (bytes: number) => void): Promise<void> {
    const { size, file } = this.#wanted
    for await (const chunk of bytes) {
      if (this.#at + chunk.length > size) {
        refuse('image_not_fetched', `${file} is larger than the ${size} bytes of the manifest`)
      }
      await this.#write(chunk).catch((cause: unknown) => {
        throw new LocalFailure('it could not be written', { cause })
      })
      came(chunk.length)
      if (this.#at === size) return
    }
  }

  async #write(chunk: Uint8Array): Promise<void> {
    for (let done = 0; done < chunk.length; ) {
      done += (await this.#file.write(chunk, done, chunk.length - done, this.#at + done)).bytesWritten
    }
    const [before, half] = [this.#at, this.#wanted.size / 2]
    this.#took(chunk)
    if (before < half && this.#at >= half) await this.#options.halfway()
  }

  #took(chunk: Uint8Array): void {
    this.#hash.update(chunk)
    this.#at += chunk.length
    this.#options.progress(chunk.length)
  }
}

/** What another connection does not help against. */
class LocalFailure extends Error {}

const stalled = (file: string, { minBytesPerWindow, windowMs }: ProgressLimits): Refusal =>
  new Refusal(
    'image_not_fetched',
    `${file} came too slowly: less than ${minBytesPerWindow} bytes in ${windowMs / 1_000} s`,
  )
