// The channel of a script that runs in a simulated guest: a child process, with the events of an SSH channel.
import type { ChildProcessWithoutNullStreams } from 'node:child_process'
import { Duplex, type Readable } from 'node:stream'
import type { GuestChannel } from '../guest-connection.ts'

export class ProcessChannel extends Duplex implements GuestChannel {
  readonly stderr: Readable
  readonly #child: ChildProcessWithoutNullStreams
  #isLost = false

  constructor(child: ChildProcessWithoutNullStreams) {
    super({ autoDestroy: false })
    this.#child = child
    this.stderr = child.stderr
    const { stdin, stdout, stderr } = child
    stdout.on('data', (bytes: Buffer) => {
      if (!this.push(bytes)) stdout.pause()
    })
    stdout.once('close', () => this.push(null))
    for (const stream of [this, stdin, stdout, stderr]) stream.on('error', () => undefined)
    child.once('exit', (code, signal) => {
      if (!this.#isLost) this.emit('exit', code, signal ?? undefined)
    })
    // A process that could not be started has no exit, as one whose connection was lost.
    child.once('error', () => this.close())
    child.once('close', () => {
      if (this.readableEnded) this.destroy()
      else this.once('end', () => this.destroy())
    })
  }

  /** The script goes on without its channel, unless it reads or writes. */
  close(): void {
    this.#isLost ||= this.#child.exitCode === null && this.#child.signalCode === null
    for (const stream of this.#child.stdio) stream?.destroy()
    this.#child.kill('SIGKILL')
    this.destroy()
  }

  override _read(): void {
    this.#child.stdout.resume()
  }

  /** What the script does not read any more is dropped. */
  override _write(bytes: Buffer, _encoding: BufferEncoding, done: () => void): void {
    if (this.#child.stdin.writable) this.#child.stdin.write(bytes, () => done())
    else done()
  }

  override _final(done: () => void): void {
    this.#child.stdin.end(() => done())
  }
}
