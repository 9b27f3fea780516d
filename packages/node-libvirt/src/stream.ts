/**
 * A libvirt stream as Node's own: Readable for what the daemon sends, Writable for what it takes. Each owns its
 * connection and closes it: streams have no credits, so unread data would stall every other call on it.
 */
import { Readable } from 'node:stream'
import type { Connection, StreamSink } from './connection.ts'
import { messageStatus } from './frames.ts'

/** The daemon may fail a stream before its caller can listen; the error stays in `errored`, where pipelines find it. */
function keepQuiet(): void {}

/** What the daemon sends. Unread data is left in the socket, destroying it closes the connection. */
export class IncomingStream extends Readable implements StreamSink {
  #connection: Connection | undefined

  constructor() {
    super({ highWaterMark: 1024 * 1024 })
    this.on('error', keepQuiet)
  }

  /** Takes the connection over; before this, packets are only kept. */
  attach(connection: Connection): void {
    this.#connection = connection
  }

  receive(status: number, body: Buffer): void {
    if (status === messageStatus.ok) this.push(null)
    else if (body.length === 0) this.#connection?.confirmEnd()
    else if (!this.push(body)) this.#connection?.pause()
  }

  fail(error: Error): void {
    this.destroy(error)
  }

  override _read(): void {
    this.#connection?.resume()
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#connection?.close()
    done(error)
  }
}
