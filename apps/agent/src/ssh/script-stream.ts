// A script over SSH, or a stream of our program, that reads or writes the bytes of a file, until its exit code says whether it
// succeeded.

import { randomBytes } from 'node:crypto'
import { Refusal, refuse } from '@dormouse/contract'
import type { GuestChannel, GuestConnection } from '../driver/guest-connection.ts'
import { streamScript } from '../scripts/calls.ts'
import { fileRefusal } from '../scripts/file-failures.ts'
import { fileLimits } from '../scripts/limits.ts'
import { greetingTooLong, StartLine, withStartLine } from '../scripts/start-line.ts'
import { closeChannel } from './channels.ts'

/** One read and one write at a time. */
export class ScriptStream {
  readonly #channel: GuestChannel
  readonly #ended = Promise.withResolvers<void>()
  /** Bytes that came and are not read yet; the channel is paused meanwhile. */
  #received: Buffer | undefined
  /** The caller that waits to read. A new promise each time: one for all would keep every caller in memory. */
  #waiting: PromiseWithResolvers<Buffer | undefined> | undefined
  /** The caller that waits to write. */
  #draining: PromiseWithResolvers<void> | undefined
  #stderr = ''
  #isClosed = false

  static start(connection: GuestConnection, script: string): Promise<ScriptStream> {
    return ScriptStream.#open(connection, (nonce) => withStartLine(script, nonce))
  }

  /** An operation of our program; `exec_unsupported` if the guest has no program. */
  static operate(connection: GuestConnection, words: readonly (string | number)[]): Promise<ScriptStream> {
    return ScriptStream.#open(connection, (nonce) => streamScript(words, nonce))
  }

  static #open(connection: GuestConnection, scriptOf: (nonce: string) => string): Promise<ScriptStream> {
    const nonce = randomBytes(12).toString('hex')
    return connection.openChannel(scriptOf(nonce), (channel) => new ScriptStream(channel, new StartLine(nonce)))
  }

  private constructor(channel: GuestChannel, start: StartLine) {
    this.#channel = channel
    this.#ended.promise.then(
      () => this.#resume(undefined),
      (error: unknown) => this.#waiting?.reject(error),
    )
    let exitCode: number | null | undefined
    channel.on('data', (bytes: Buffer) => {
      const own = start.after(bytes)
      if (own.length > 0) this.#receive(own)
      else if (start.isOverLimit) this.#fail(greetingTooLong)
    })
    channel.pause()
    channel.stderr.on('data', (bytes: Buffer) => {
      this.#stderr = (this.#stderr + bytes.toString('utf8')).slice(-fileLimits.messageMaxLength)
    })
    channel.on('drain', () => this.#draining?.resolve())
    channel.on('exit', (code: number | null) => {
      exitCode = code
    })
    channel.on('close', () => this.#onClose(exitCode))
  }

  /** The next bytes; undefined at a successful end. */
  async read(): Promise<Buffer | undefined> {
    const received = this.#received
    this.#received = undefined
    if (received) return received
    if (this.#isClosed) {
      await this.#ended.promise
      return undefined
    }
    this.#waiting = Promise.withResolvers()
    this.#channel.resume()
    return this.#waiting.promise
  }

  async write(bytes: Buffer): Promise<void> {
    if (!this.#isClosed && this.#channel.write(bytes)) return
    if (!this.#isClosed) {
      this.#draining = Promise.withResolvers()
      await this.#draining.promise
    }
    if (!this.#isClosed) return
    await this.#ended.promise
    refuse('guest_unavailable', 'the guest stopped reading during the transfer')
  }

  /** Ends the script's input. */
  endInput(): void {
    this.#channel.end()
  }

  /** Ends the script's input, and waits until it has read all of it. */
  async finish(): Promise<void> {
    this.endInput()
    await this.#ended.promise
  }

  /** Drops what the script still prints, but for its errors. A paused channel would never end. */
  discardOutput(): void {
    this.#channel.removeAllListeners('data').resume()
  }

  close(): void {
    closeChannel(this.#channel)
  }

  #resume(bytes: Buffer | undefined): void {
    this.#waiting?.resolve(bytes)
    this.#waiting = undefined
  }

  #receive(bytes: Buffer): void {
    this.#channel.pause()
    if (this.#waiting) this.#resume(bytes)
    else this.#received = bytes
  }

  #onClose(exitCode: number | null | undefined): void {
    this.#isClosed = true
    this.#draining?.resolve()
    const lost = 'the connection to the guest was lost during the transfer'
    if (exitCode === undefined) this.#ended.reject(new Refusal('guest_unavailable', lost))
    else if (exitCode !== 0) this.#ended.reject(fileRefusal(this.#stderr))
    else this.#ended.resolve()
  }

  #fail(why: string): void {
    this.#ended.reject(new Refusal('guest_unavailable', why))
    this.close()
  }
}
