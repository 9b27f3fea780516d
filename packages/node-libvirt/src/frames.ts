/**
 * Messages of the RPC protocol: a length word, a header of six words, a body. Encodes and decodes them; knows neither
 * sockets nor the meaning of a body.
 */
import { type Codec, XdrWriter } from './xdr.ts'

export const messageType = { call: 0, reply: 1, message: 2 } as const
export const messageStatus = { ok: 0, error: 1 } as const

const headerBytes = 28
const maxFrameBytes = 32 * 1024 * 1024 + 4

/** The other side violates the protocol. Nothing after that can be trusted: close the connection. */
export class FramingError extends Error {
  override name = 'FramingError'
}

export interface Header {
  program: number
  procedure: number
  type: number
  serial: number
  status: number
}

export interface Frame extends Header {
  body: Buffer
}

/** One whole message. */
export function encodeFrame<T>(header: Header, codec: Codec<T>, value: T): Buffer {
  const to = new XdrWriter()
  to.u32(0)
  to.u32(header.program)
  to.u32(1)
  to.i32(header.procedure)
  to.i32(header.type)
  to.u32(header.serial)
  to.i32(header.status)
  codec.write(to, value)
  const bytes = to.finish()
  if (bytes.length > maxFrameBytes)
    throw new FramingError(`a message of ${bytes.length} bytes exceeds the protocol's limit of ${maxFrameBytes}`)
  bytes.writeUInt32BE(bytes.length, 0)
  return bytes
}

function decode(bytes: Buffer): Frame {
  const version = bytes.readUInt32BE(8)
  const type = bytes.readInt32BE(16)
  const status = bytes.readInt32BE(24)
  if (version !== 1) throw new FramingError(`protocol version ${version} is not supported`)
  if (type < 0 || type > 6) throw new FramingError(`message type ${type} does not exist`)
  if (status < 0 || status > 2) throw new FramingError(`message status ${status} does not exist`)
  return {
    program: bytes.readUInt32BE(4),
    procedure: bytes.readInt32BE(12),
    type,
    serial: bytes.readUInt32BE(20),
    status,
    body: bytes.subarray(headerBytes),
  }
}

/** Splits a byte stream into frames, wherever its chunks begin and end. Checks a length before waiting for that many bytes. */
export class FrameSplitter {
  readonly #onFrame: (frame: Frame) => void
  #parts: Buffer[] = []
  #held = 0
  #wanted = 4

  constructor(onFrame: (frame: Frame) => void) {
    this.#onFrame = onFrame
  }

  /** Takes the next bytes and passes on every frame that is complete. Throws FramingError. */
  push(chunk: Buffer): void {
    this.#parts.push(chunk)
    this.#held += chunk.length
    if (this.#held < this.#wanted) return
    let rest = this.#parts.length === 1 ? chunk : Buffer.concat(this.#parts)
    this.#wanted = 4
    while (rest.length >= this.#wanted) {
      const length = rest.readUInt32BE(0)
      if (length < headerBytes || length > maxFrameBytes)
        throw new FramingError(`a message of ${length} bytes, outside the protocol's limits`)
      this.#wanted = length
      if (rest.length < length) break
      this.#onFrame(decode(rest.subarray(0, length)))
      rest = rest.subarray(length)
      this.#wanted = 4
    }
    this.#parts = rest.length > 0 ? [rest] : []
    this.#held = rest.length
  }
}
