// Frames on a byte stream between two hosts: a type, a length, a payload. Each is bounded before it is read.
import { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { Refusal } from '@dormouse/contract'
import { freeChunk } from '../mechanics/free-chunk.ts'

export const frameType = { file: 1, have: 2, haveEnd: 3, piece: 4, done: 5, stored: 6, refused: 7, full: 8 } as const
export type FrameType = (typeof frameType)[keyof typeof frameType]

export interface Frame {
  type: number
  /** Until the next frame is read. */
  payload: Buffer
}

export const headerBytes = 5
export const pieceBytes = 1024 * 1024
/** The length of a piece's number, which is before its bytes. */
export const numberBytes = 4
const maxPayloadBytes = pieceBytes + numberBytes
/** Read and not taken yet: the other host may send single bytes. */
const maxChunks = 1_024

/** A frame's header. The payload follows as it is: it is not copied. */
export function frameHeader(type: FrameType, payloadBytes: number): Buffer {
  const header = Buffer.allocUnsafe(headerBytes)
  header.writeUInt8(type)
  header.writeUInt32BE(payloadBytes, 1)
  return header
}

export class FrameReader {
  readonly #stream: Duplex
  readonly #signal: AbortSignal
  readonly #payload = Buffer.allocUnsafeSlow(maxPayloadBytes)
  readonly #header = Buffer.allocUnsafe(headerBytes)
  readonly #chunks: Buffer[] = []
  /** How much of the first chunk is taken. */
  #at = 0
  #length = 0
  #ended = false
  #changed = Promise.withResolvers<void>()

  /** The signal's reason is thrown when it aborts. From now on the stream's bytes are this reader's. */
  constructor(stream: Duplex, signal: AbortSignal) {
    this.#stream = stream
    this.#signal = signal
    const wake = () => this.#changed.resolve()
    stream.on('data', (chunk: Buffer) => {
      this.#chunks.push(chunk)
      this.#length += chunk.length
      if (this.#length >= maxPayloadBytes || this.#chunks.length >= maxChunks) stream.pause()
      wake()
    })
    stream.once('end', () => {
      this.#ended = true
      wake()
    })
    stream.once('close', wake)
    signal.addEventListener('abort', wake, { once: true })
  }

  /** The next frame; undefined at the end of the stream. */
  async next(): Promise<Frame | undefined> {
    const header = await this.#take(this.#header)
    if (!header) return undefined
    const bytes = header.readUInt32BE(1)
    if (bytes > maxPayloadBytes) throw new Error(`a frame of ${bytes} bytes is longer than any that is sent`)
    const payload = (await this.#take(this.#payload.subarray(0, bytes))) ?? refuseShort()
    return { type: header.readUInt8(), payload }
  }

  /** A frame of that type, or an error that says which one came. */
  async expect(type: FrameType): Promise<Buffer> {
    const frame = await this.next()
    if (frame?.type === frameType.refused) throw new Error(`the other host refused: ${text(frame.payload)}`)
    if (frame?.type === frameType.full) throw new Refusal('host_disk_full', 'the other host’s disk is full')
    if (frame?.type !== type) throw new Error(`frame ${type} was expected, and ${frame?.type ?? 'the end'} came`)
    return frame.payload
  }

  /** Fills it; undefined at the end of the stream. */
  async #take(into: Buffer): Promise<Buffer | undefined> {
    for (let filled = 0; filled < into.length; ) {
      if (this.#chunks.length === 0 && !(await this.#more())) return filled === 0 ? undefined : refuseShort()
      const chunk = this.#chunks[0]!
      const copied = chunk.copy(into, filled, this.#at)
      filled += copied
      this.#at += copied
      this.#length -= copied
      if (this.#at < chunk.length) continue
      this.#chunks.shift()
      this.#at = 0
      if (this.#stream instanceof Socket) freeChunk(chunk)
    }
    return into
  }

  /** Waits for bytes; false at the end of the stream. */
  async #more(): Promise<boolean> {
    while (this.#chunks.length === 0) {
      this.#signal.throwIfAborted()
      if (this.#ended) return false
      if (this.#stream.destroyed) throw this.#stream.errored ?? new Error('the stream was closed')
      this.#changed = Promise.withResolvers()
      this.#stream.resume()
      await this.#changed.promise
    }
    return true
  }
}

function refuseShort(): never {
  throw new Error('the stream ended within a frame')
}

const text = (payload: Buffer): string => payload.toString('utf8', 0, 500)
