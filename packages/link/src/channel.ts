// A byte stream on a WebSocket of its own, for what would delay the calls of a link: files, screens. The reader grants the
// writer a window, so a slow reader stops a fast writer while pings still pass. Knows nothing of the bytes.
import { Duplex } from 'node:stream'
import type { RawData, WebSocket } from 'ws'
import { asRefusal, CallRefused, ChannelLost } from './errors.ts'
import { type Heartbeat, heartbeatOf, watchHeartbeat } from './heartbeat.ts'
import { SmallPieces } from './small-pieces.ts'
import { closeSocket, type DialTarget, fitCloseReason, openSocket } from './sockets.ts'

export interface ChannelOptions extends Partial<Heartbeat> {
  /** Bytes that the other side may send ahead of the reader. */
  windowBytes?: number
}

/** Control messages beside the bytes, sent as text. */
type Note = { credit: number } | { end: true } | { refused: { code: string; detail: string } }

interface PendingWrite {
  chunk: Buffer
  done: () => void
}

const defaultWindowBytes = 1024 * 1024
const maxPieceBytes = 256 * 1024
/** No frame is longer: a piece, or a message between the sides. */
export const channelMaxFrameBytes = 1024 * 1024
/** The other side may send this many notes, and one more for `bytesPerNote` that it receives. */
const firstNotes = 64
const bytesPerNote = 1024
/** Credit above this is ignored: no window is that large. */
const maxCredit = 1024 * 1024 * 1024

/** Opens a channel. Rejects with DialRefused, or with the signal's reason. */
export function dialChannel(options: DialTarget & ChannelOptions): Promise<Channel> {
  return openSocket(options, channelMaxFrameBytes, (socket) => new Channel(socket, options))
}

/**
 * `end()` crosses as a clean end, and each direction ends by itself. A cut is never a clean end: it destroys the stream
 * with ChannelLost. `destroy(refusal)` crosses as CallRefused, `destroy(other)` as ChannelLost without its text.
 */
export class Channel extends Duplex {
  readonly #socket: WebSocket
  readonly #windowBytes: number
  /** What we may still send. */
  #credit = 0
  /** What the other side may still send. */
  #granted = 0
  #pending: PendingWrite | undefined
  /** Whether the reader keeps up. While it does not, small pieces are gathered. */
  #isWanted = true
  readonly #small = new SmallPieces()
  #notesLeft = firstNotes
  #bytesSinceNote = 0
  #ended = { here: false, there: false }

  constructor(socket: WebSocket, options: ChannelOptions = {}) {
    super()
    if (socket.readyState !== socket.OPEN) throw new TypeError('a Channel needs an open WebSocket')
    this.#socket = socket
    this.#windowBytes = options.windowBytes ?? defaultWindowBytes
    // Reads and writes report a failure. A channel that fails while nothing uses it must not end the process.
    this.on('error', () => undefined)
    socket.on('message', (data, isBinary) => this.#onMessage(data, isBinary))
    socket.on('error', (error) => this.destroy(new ChannelLost(1006, error.message)))
    socket.on('close', (code, reason) => this.#lose(code, reason.toString()))
    const beat = heartbeatOf(options)
    watchHeartbeat(socket, beat, () => {
      this.destroy(new ChannelLost(1006, `no sign of life within ${beat.pingTimeoutMs} ms`))
      socket.terminate()
    })
    this.#grant()
  }

  /** Node's own iterator destroys a stream when it has been read to its end, and the response could not be written. */
  override async *[Symbol.asyncIterator](): AsyncGenerator<Buffer> {
    let whole = false
    try {
      yield* this.iterator({ destroyOnReturn: false })
      whole = true
    } finally {
      if (!whole) this.destroy()
    }
  }

  override _read(): void {
    this.#isWanted = true
    this.#pushSmall()
    if (this.#isWanted) this.#grant()
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
    this.#pending = { chunk, done }
    this.#sendPending()
  }

  override _final(done: () => void): void {
    this.#ended.here = true
    this.#note({ end: true })
    done()
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#pending = undefined
    this.#hangUp(error)
    done(error)
  }

  #hangUp(error: Error | null): void {
    // Both directions have ended: the socket still sends what is buffered.
    if (!error && this.#ended.here && this.#ended.there) {
      this.#socket.close(1000)
      return
    }
    const refusal = asRefusal(error)
    if (refusal) this.#note({ refused: refusal })
    const [code, reason] = error instanceof ProtocolBreach ? [1002, error.reason] : [error ? 1011 : 1000, 'given up']
    void closeSocket(this.#socket, code, fitCloseReason(reason))
  }

  #note(note: Note): void {
    this.#socket.send(JSON.stringify(note))
  }

  #sendPending(): void {
    while (this.#pending && this.#credit > 0) {
      const { chunk, done } = this.#pending
      const piece = chunk.subarray(0, Math.min(this.#credit, maxPieceBytes))
      this.#credit -= piece.length
      this.#earnNotes(piece.length)
      this.#pending = piece.length < chunk.length ? { chunk: chunk.subarray(piece.length), done } : undefined
      // A chunk is done once the socket has sent it. If sending fails, the socket closes.
      this.#socket.send(piece, this.#pending ? undefined : () => done())
    }
  }

  /** The other side may send one more note for every `bytesPerNote` that we send it. */
  #earnNotes(bytes: number): void {
    this.#bytesSinceNote += bytes
    this.#notesLeft += Math.floor(this.#bytesSinceNote / bytesPerNote)
    this.#bytesSinceNote %= bytesPerNote
  }

  /** Refills the window once half of it is used: few notes, and the writer never stalls. */
  #grant(): void {
    const due = this.#windowBytes - this.#granted
    if (due < this.#windowBytes / 2 || this.#ended.there) return
    this.#granted += due
    this.#note({ credit: due })
  }

  #onMessage(data: RawData, isBinary: boolean): void {
    if (this.destroyed) return
    try {
      const bytes = data as Buffer
      if (isBinary) this.#onBytes(bytes)
      else this.#onNote(readNote(bytes.toString()))
    } catch (error) {
      this.destroy(error as Error)
    }
  }

  #onBytes(bytes: Buffer): void {
    if (this.#ended.there) throw new ProtocolBreach('bytes after the end')
    this.#granted -= bytes.length
    if (this.#granted < 0) throw new ProtocolBreach('more bytes than granted')
    if (!this.#isWanted && this.#small.add(bytes)) return
    this.#pushSmall()
    this.#isWanted = this.push(bytes)
    if (this.#isWanted) this.#grant()
  }

  #pushSmall(): void {
    const gathered = this.#small.take()
    if (gathered) this.#isWanted = this.push(gathered)
  }

  #onNote(note: Note): void {
    if (--this.#notesLeft < 0) throw new ProtocolBreach('more notes than bytes')
    if ('credit' in note) {
      this.#credit = Math.min(maxCredit, this.#credit + note.credit)
      this.#sendPending()
    } else if ('end' in note) {
      this.#ended.there = true
      this.#pushSmall()
      this.push(null)
    } else {
      this.destroy(new CallRefused(note.refused.code, note.refused.detail))
    }
  }

  #lose(code: number, reason: string): void {
    if (this.#ended.here && this.#ended.there) return
    this.destroy(new ChannelLost(code, reason || `the socket closed with code ${code}`))
  }
}

class ProtocolBreach extends ChannelLost {
  constructor(reason: string) {
    super(1002, reason)
  }
}

function readNote(text: string): Note {
  const note = parse(text)
  if (typeof note !== 'object' || note === null) throw new ProtocolBreach('a note must be an object')
  const { credit, end, refused } = note as Record<string, unknown>
  if (Number.isSafeInteger(credit) && (credit as number) > 0) return { credit: credit as number }
  if (end === true) return { end }
  const refusal = asRefusal({ ...(refused as object), refusal: true })
  if (refusal) return { refused: refusal }
  throw new ProtocolBreach('an unknown note')
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new ProtocolBreach('a note must be JSON')
  }
}
