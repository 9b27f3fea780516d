// A file as pieces of 1 MiB with a digest each, by which two hosts find out what is the same on both. The digest of a file is
// that of its pieces' digests.
import { createHash } from 'node:crypto'
import type { FileHandle } from 'node:fs/promises'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { pieceBytes } from './frames.ts'

export const digestBytes = 32
const zeros = Buffer.alloc(pieceBytes)
const sha256 = (bytes: Uint8Array): Buffer => createHash('sha256').update(bytes).digest()
const zeroDigest = sha256(zeros)

export const pieceCount = (bytes: number): number => Math.ceil(bytes / pieceBytes)

/** The piece's digest. A piece of zeros costs a comparison only. */
export const digestOf = (piece: Buffer): Buffer =>
  piece.length === pieceBytes && piece.equals(zeros) ? zeroDigest : sha256(piece)

/** Reads that piece of a file of this many bytes into the buffer; returns the part of the buffer that it fills. */
export async function readPiece(file: FileHandle, index: number, bytes: number, buffer: Buffer): Promise<Buffer> {
  const at = index * pieceBytes
  const length = Math.min(pieceBytes, bytes - at)
  for (let filled = 0; filled < length; ) {
    const { bytesRead } = await file.read(buffer, filled, length - filled, at + filled)
    if (bytesRead === 0) throw new Error('the file became shorter while it was read')
    filled += bytesRead
  }
  return buffer.subarray(0, length)
}

/** The digests of all pieces, one after the other. */
export async function digestsOf(file: FileHandle, bytes: number, signal: AbortSignal): Promise<Buffer> {
  const digests = Buffer.alloc(pieceCount(bytes) * digestBytes)
  // A new file has no blocks: it is known to be zeros.
  if ((await file.stat()).blocks === 0) return digestsOfZeros(digests, bytes)
  const buffer = Buffer.allocUnsafe(pieceBytes)
  for (let index = 0; index < pieceCount(bytes); index++) {
    signal.throwIfAborted()
    digestOf(await readPiece(file, index, bytes, buffer)).copy(digests, index * digestBytes)
    // Hashing takes this thread: heartbeats and other desktops get their turn.
    if (index % 8 === 0) await nextTurn()
  }
  return digests
}

function digestsOfZeros(digests: Buffer, bytes: number): Buffer {
  digests.fill(zeroDigest)
  const rest = bytes % pieceBytes
  if (rest > 0) sha256(zeros.subarray(0, rest)).copy(digests, digests.length - digestBytes)
  return digests
}

export const rootOf = (digests: Buffer): string => sha256(digests).toString('hex')
