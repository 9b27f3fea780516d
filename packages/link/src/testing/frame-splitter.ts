// Cuts a byte stream of HTTP upgrade and WebSocket frames into whole pieces, so that faults can act on frames.
// Pure; knows the frame's header only (RFC 6455, 5.2) and leaves payloads masked as they are.

const headEnd = Buffer.from('\r\n\r\n')

/** One piece: the HTTP head, a frame that carries data, or anything else. */
export interface Piece {
  bytes: Buffer
  isData: boolean
}

export class FrameSplitter {
  #rest: Buffer = Buffer.alloc(0)
  #mode: 'head' | 'frames' | 'raw' = 'head'

  /** The pieces that are whole with these bytes. */
  push(bytes: Buffer): Piece[] {
    const pieces: Piece[] = []
    this.#rest = this.#rest.length === 0 ? bytes : Buffer.concat([this.#rest, bytes])
    for (let length = this.#next(); length !== undefined; length = this.#next()) {
      const piece = this.#rest.subarray(0, length)
      this.#rest = this.#rest.subarray(length)
      pieces.push({ bytes: piece, isData: this.#mode === 'frames' && isDataFrame(piece) })
      if (this.#mode === 'head') this.#mode = startsFrames(piece) ? 'frames' : 'raw'
    }
    return pieces
  }

  #next(): number | undefined {
    if (this.#mode === 'raw') return this.#rest.length || undefined
    const length = this.#mode === 'head' ? headLength(this.#rest) : frameLength(this.#rest)
    return length !== undefined && length <= this.#rest.length ? length : undefined
  }
}

function headLength(bytes: Buffer): number | undefined {
  const at = bytes.indexOf(headEnd)
  return at < 0 ? undefined : at + headEnd.length
}

function startsFrames(head: Buffer): boolean {
  const line = head.toString('latin1', 0, 12)
  return line.startsWith('GET ') || line === 'HTTP/1.1 101'
}

function isDataFrame(frame: Buffer): boolean {
  return ((frame[0] ?? 0) & 0x0f) < 8
}

function frameLength(bytes: Buffer): number | undefined {
  if (bytes.length < 2) return undefined
  const maskBytes = (bytes.readUInt8(1) & 0x80) === 0 ? 0 : 4
  const short = bytes.readUInt8(1) & 0x7f
  if (short < 126) return 2 + maskBytes + short
  if (short === 126) return bytes.length < 4 ? undefined : 4 + maskBytes + bytes.readUInt16BE(2)
  return bytes.length < 10 ? undefined : 10 + maskBytes + Number(bytes.readBigUInt64BE(2))
}
