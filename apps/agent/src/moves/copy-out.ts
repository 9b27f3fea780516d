// Sends files to the other host: only the pieces that it does not have yet, so an interrupted copy goes on where it stopped.
import { open } from 'node:fs/promises'
import type { Duplex } from 'node:stream'
import type { MoveTransfer } from '../transfer/transfer.ts'
import { FrameReader, type FrameType, frameHeader, frameType, headerBytes, numberBytes, pieceBytes } from './frames.ts'
import { digestBytes, digestOf, pieceCount, readPiece, rootOf } from './pieces.ts'

export interface FileToSend {
  name: string
  path: string
  bytes: number
}

/** Sends the files one after the other; returns the digest of each when the other host has stored and verified it. */
export async function sendFiles(
  transfer: MoveTransfer,
  stream: Duplex,
  files: FileToSend[],
  count: (doneBytes: number) => void,
): Promise<Record<string, string>> {
  const reader = new FrameReader(stream, transfer.ended)
  const sender = new Sender(transfer, stream)
  const roots: Record<string, string> = {}
  let before = 0
  for (const file of files) {
    roots[file.name] = await sendFile(sender, reader, file, (done) => count(before + done))
    before += file.bytes
  }
  stream.end()
  return roots
}

/** How many pieces are read ahead of what the stream has taken. */
const aheadPieces = 3
const headBytes = headerBytes + numberBytes

/** Its buffers are used again: a new one for each piece would cost as much as the encryption. */
class Sender {
  readonly #transfer: MoveTransfer
  readonly #stream: Duplex
  readonly #slots = Array.from({ length: aheadPieces }, () => {
    return { buffer: Buffer.allocUnsafeSlow(headBytes + pieceBytes), sent: Promise.resolve() }
  })
  #next = 0

  constructor(transfer: MoveTransfer, stream: Duplex) {
    this.#transfer = transfer
    this.#stream = stream
  }

  end(error: Error): void {
    this.#transfer.end(error)
  }

  async send(type: FrameType, payload: Uint8Array): Promise<void> {
    await this.#transfer.send(this.#stream, Buffer.concat([frameHeader(type, payload.length), payload]))
  }

  /** The buffer for the next piece, once the stream has taken what was in it. */
  async buffer(): Promise<Buffer> {
    const { buffer, sent } = this.#slots[this.#next]!
    await sent
    return buffer.subarray(headBytes)
  }

  /** Sends the first bytes of that buffer as this piece. */
  sendPiece(index: number, bytes: number): void {
    const slot = this.#slots[this.#next]!
    this.#next = (this.#next + 1) % aheadPieces
    frameHeader(frameType.piece, numberBytes + bytes).copy(slot.buffer)
    slot.buffer.writeUInt32BE(index, headerBytes)
    slot.sent = this.#transfer.send(this.#stream, slot.buffer.subarray(0, headBytes + bytes))
    // `buffer` and `flushed` throw it.
    slot.sent.catch(() => undefined)
  }

  async flushed(): Promise<void> {
    for (const { sent } of this.#slots) await sent
  }
}

async function sendFile(
  sender: Sender,
  reader: FrameReader,
  { name, path, bytes }: FileToSend,
  count: (doneBytes: number) => void,
): Promise<string> {
  const file = await open(path, 'r')
  try {
    await sender.send(frameType.file, Buffer.from(JSON.stringify({ name, bytes })))
    const there = await readHave(reader, pieceCount(bytes))
    const stored = reader.expect(frameType.stored)
    // If the other host refuses, nothing more is sent.
    stored.catch((error: Error) => sender.end(error))
    const digests = Buffer.alloc(there.length)
    for (let index = 0; index < pieceCount(bytes); index++) {
      const piece = await readPiece(file, index, bytes, await sender.buffer())
      const at = index * digestBytes
      digestOf(piece).copy(digests, at)
      const isThere = digests.compare(there, at, at + digestBytes, at, at + digestBytes) === 0
      if (!isThere) sender.sendPiece(index, piece.length)
      count(index * pieceBytes + piece.length)
    }
    await sender.flushed()
    const root = rootOf(digests)
    await sender.send(frameType.done, Buffer.from(root))
    await stored
    return root
  } finally {
    await file.close()
  }
}

/** The digests of what the other host has. */
async function readHave(reader: FrameReader, count: number): Promise<Buffer> {
  const digests = Buffer.alloc(count * digestBytes)
  for (let at = 0; at < digests.length; ) {
    const part = await reader.expect(frameType.have)
    if (part.length === 0 || at + part.length > digests.length) throw new Error('the other host sent wrong digests')
    at += part.copy(digests, at)
  }
  await reader.expect(frameType.haveEnd)
  return digests
}
