// Files over a guest's SSH connection: the same scripts as through the agent make, place and take them away; the bytes run
// through a channel of their own, as fast as the other end takes them. Not SFTP: it has no words for a full disk.
import { randomBytes } from 'node:crypto'
import { Refusal, refuse } from '@dormouse/contract'
import type { ClientChannel } from 'ssh2'
import type { FileDownload, FileUpload } from '../driver/guest-transport.ts'
import { untilHeard } from '../mechanics/deadlines.ts'
import { announce } from '../scripts/exec.ts'
import { asReading, fileRefusal, unlessGone } from '../scripts/file-failures.ts'
import {
  abandonScript,
  checkScript,
  commitScript,
  createScript,
  type Place,
  placeMaxBytes,
  readPlace,
  removeScript,
} from '../scripts/files.ts'
import { Head } from '../scripts/start-line.ts'
import { drain, hangUp } from './channels.ts'
import type { SshLine } from './connection.ts'
import { runOverSsh } from './exec.ts'

/** A script that makes folders or moves a file waits for nothing but the guest's disk. */
const scriptMs = 30_000

export async function uploadOverSsh(line: SshLine, path: string, mode: number | null): Promise<FileUpload> {
  const errand = await Errand.begin(line, createScript(path, randomBytes(12).toString('hex'), 'exec cat >"$t"'))
  const place = await printedPlace(errand)
  errand.ignoreRest()
  return new SshUpload(line, errand, place, mode)
}

async function printedPlace(errand: Errand): Promise<Place> {
  let printed = Buffer.alloc(0)
  while (printed.length <= placeMaxBytes) {
    const bytes = await errand.next()
    if (!bytes) break
    printed = Buffer.concat([printed, bytes])
    const place = readPlace(printed)
    if (place) return place
  }
  errand.close()
  return refuse('guest_unavailable', 'the guest answered nonsense')
}

class SshUpload implements FileUpload {
  readonly #line: SshLine
  readonly #errand: Errand
  readonly #place: Place
  readonly #mode: number | null
  #size = 0

  constructor(line: SshLine, errand: Errand, place: Place, mode: number | null) {
    this.#line = line
    this.#errand = errand
    this.#place = place
    this.#mode = mode
  }

  async write(bytes: Buffer): Promise<void> {
    await this.#line.room()
    await this.#errand.write(bytes)
    this.#size += bytes.length
  }

  async commit(): Promise<number> {
    await this.#errand.end()
    const ended = await runOverSsh(this.#line, commitScript(this.#place, this.#size, this.#mode), scriptMs)
    if (ended.exitCode !== 0) throw fileRefusal(ended.stderr.toString('utf8'))
    return this.#size
  }

  async abandon(): Promise<void> {
    this.#errand.close()
    if (await unlessGone(runOverSsh(this.#line, abandonScript(this.#place), scriptMs))) return
    untilHeard(() => unlessGone(this.#remove()))
  }

  async #remove(): Promise<void> {
    await this.#line.connect()
    await runOverSsh(this.#line, removeScript(this.#place), scriptMs)
  }
}

export async function openOverSsh(line: SshLine, path: string): Promise<FileDownload> {
  // One byte says that it is open.
  const errand = await Errand.begin(line, checkScript(path, 'echo\nexec cat "$p"'))
  errand.noMore()
  let first = await errand.next().catch(asReading)
  first = first?.subarray(1)
  return {
    read: async () => {
      const given = first
      first = undefined
      return given?.length ? given : errand.next()
    },
    close: async () => errand.close(),
  }
}

/** A script that takes or gives bytes, until its end says whether it went well. One call at a time. */
class Errand {
  readonly #channel: ClientChannel
  readonly #ended = Promise.withResolvers<void>()
  /** What was given and not yet taken; the channel rests meanwhile. */
  #given: Buffer | undefined
  /** Whoever waits for bytes, or for room for them: a new promise each time, since one for all would keep each who ever waited. */
  #waiting: PromiseWithResolvers<Buffer | undefined> | undefined
  #said = ''
  #closed = false

  static begin(line: SshLine, script: string): Promise<Errand> {
    const nonce = randomBytes(12).toString('hex')
    return line.open(announce(script, nonce), (channel) => new Errand(channel, new Head(nonce)))
  }

  private constructor(channel: ClientChannel, head: Head) {
    this.#channel = channel
    this.#ended.promise.then(
      () => this.#go(undefined),
      (error: unknown) => this.#waiting?.reject(error),
    )
    let code: number | null | undefined
    channel.on('data', (bytes: Buffer) => {
      const own = head.own(bytes)
      if (own.length > 0) this.#give(own)
      else if (head.endless) this.#refuse('the guest’s shell never ends to greet')
    })
    channel.pause()
    channel.stderr.on('data', (bytes: Buffer) => {
      this.#said = (this.#said + bytes.toString('utf8')).slice(-4_096)
    })
    channel.on('drain', () => this.#go(undefined))
    channel.on('exit', (status: number | null) => {
      code = status
    })
    channel.on('close', () => {
      this.#closed = true
      if (code === undefined) this.#ended.reject(new Refusal('guest_unavailable', 'the guest went away on the way'))
      else if (code !== 0) this.#ended.reject(fileRefusal(this.#said))
      else this.#ended.resolve()
    })
  }

  /** The next bytes; undefined at an end that went well. */
  async next(): Promise<Buffer | undefined> {
    const given = this.#given
    this.#given = undefined
    if (given) return given
    return this.#turn(() => this.#channel.resume())
  }

  async write(bytes: Buffer): Promise<void> {
    if (!this.#closed && this.#channel.write(bytes)) return
    await this.#turn()
    if (this.#closed) refuse('guest_unavailable', 'the guest stopped on the way')
  }

  noMore(): void {
    this.#channel.end()
  }

  /** All was given; waits until it was taken. */
  async end(): Promise<void> {
    this.noMore()
    await this.#ended.promise
  }

  /** Whatever still comes is dropped. A channel that rests would not notice its end. */
  ignoreRest(): void {
    drain(this.#channel)
  }

  close(): void {
    hangUp(this.#channel)
  }

  /** What comes next; at an end that went well, nothing. */
  async #turn(begin?: () => void): Promise<Buffer | undefined> {
    if (this.#closed) {
      await this.#ended.promise
      return undefined
    }
    this.#waiting = Promise.withResolvers()
    begin?.()
    return this.#waiting.promise
  }

  #go(bytes: Buffer | undefined): void {
    this.#waiting?.resolve(bytes)
    this.#waiting = undefined
  }

  #give(bytes: Buffer): void {
    this.#channel.pause()
    if (this.#waiting) this.#go(bytes)
    else this.#given = bytes
  }

  #refuse(why: string): void {
    this.#ended.reject(new Refusal('guest_unavailable', why))
    this.close()
  }
}
