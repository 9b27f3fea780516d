// Sends files to the other host: only the pieces that it does not have yet, so a copy that was cut goes on where it was.
import { open } from 'node:fs/promises'
import type { Duplex } from 'node:stream'
import type { Carrier } from '../carrier/carrier.ts'
import { FrameReader, type FrameType, frameHeader, frameType, pieceBytes } from './frames.ts'
import { digestBytes, digestOf, pieceCount, piecesOf, rootOf } from './pieces.ts'

export interface FileToSend {
  name: string
  path: string
  bytes: number
}

/** Sends the files one after the other; returns the digest of each when the other host has stored and verified it. */
export async function sendFiles(
  carrier: Carrier,
  stream: Duplex,
  files: FileToSend[],
  count: (doneBytes: number) => void,
): Promise<Record<string, string>> {
  const reader = new FrameReader(stream, carrier.ended)
  const sender = new Sender(carrier, stream)
  const roots: Record<string, string> = {}
  let before = 0
  for (const file of files) {
    roots[file.name] = await sendFile(sender, reader, file, (done) => count(before + done))
    before += file.bytes
  }
  stream.end()
  return roots
}

class Sender {
  readonly #carrier: Carrier
  readonly #stream: Duplex

  constructor(carrier: Carrier, stream: Duplex) {
    this.#carrier = carrier
    this.#stream = stream
  }

  async send(type: FrameType, ...parts: Uint8Array[]): Promise<void> {
    const bytes = parts.reduce((sum, part) => sum + part.length, 0)
    // Copied: the sender's buffer is filled again while the stream still has the bytes.
    await this.#carrier.send(this.#stream, Buffer.concat([frameHeader(type, bytes), ...parts]))
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
    const digests = Buffer.alloc(there.length)
    for await (const { index, piece } of piecesOf(file, bytes)) {
      const at = index * digestBytes
      digestOf(piece).copy(digests, at)
      const isThere = digests.compare(there, at, at + digestBytes, at, at + digestBytes) === 0
      if (!isThere) await sender.send(frameType.piece, numberBytes(index), piece)
      count(index * pieceBytes + piece.length)
    }
    const root = rootOf(digests)
    await sender.send(frameType.done, Buffer.from(root))
    await reader.expect(frameType.stored)
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

function numberBytes(value: number): Buffer {
  const bytes = Buffer.allocUnsafe(4)
  bytes.writeUInt32BE(value)
  return bytes
}
