/**
 * A libvirt stream as a Node Readable. It owns its connection and closes it: libvirt has no flow control, so unread data
 * would stall every other call on the connection.
 */
import { Readable } from 'node:stream'
import type { Connection, StreamSink } from './connection.ts'
import { messageStatus } from './frames.ts'

/** The daemon may fail a stream before its caller listens. The error stays in `errored`, where pipelines find it. */
function ignore(): void {}

/** Unread data stays in the socket. Destroying the stream closes the connection. */
export class IncomingStream extends Readable implements StreamSink {
  #connection: Connection | undefined

  constructor() {
    super({ highWaterMark: 1024 * 1024 })
    this.on('error', ignore)
  }

  /** Takes over the connection. Packets that arrive before are kept. */
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
