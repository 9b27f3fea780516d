/**
 * A libvirt stream as Node's own: Readable for what the daemon sends, Writable for what it takes. Each owns its
 * connection and closes it: streams have no credits, so unread data would stall every other call on it.
 */
import { Readable, Writable } from 'node:stream'
import type { Connection, StreamSink } from './connection.ts'
import { messageStatus } from './frames.ts'

/** The largest packet every libvirt takes: 256 KiB with the header's words. */
const packetBytes = 256 * 1024 - 24
const nothing = Buffer.alloc(0)

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
    else if (body.length === 0) this.#connection?.sendStream(messageStatus.ok, nothing)
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

/** What the daemon takes. It is whole only when `finish` came: then the daemon has confirmed the end. */
export class OutgoingStream extends Writable implements StreamSink {
  #connection: Connection | undefined
  #confirmed: (() => void) | undefined

  constructor() {
    super({ highWaterMark: 1024 * 1024 })
    this.on('error', keepQuiet)
  }

  attach(connection: Connection): void {
    this.#connection = connection
  }

  receive(status: number): void {
    if (status === messageStatus.ok) this.#confirmed?.()
  }

  fail(error: Error): void {
    this.destroy(error)
  }

  /** An empty packet would be an end of file, so an empty chunk sends none. */
  override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
    let at = 0
    const next = () => {
      if (at >= chunk.length) {
        done()
        return
      }
      const packet = chunk.subarray(at, at + packetBytes)
      at += packet.length
      this.#connection?.sendStream(messageStatus.continue, packet, next)
    }
    next()
  }

  override _final(done: () => void): void {
    this.#confirmed = done
    this.#connection?.sendStream(messageStatus.ok, nothing)
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#connection?.close()
    done(error)
  }
}
