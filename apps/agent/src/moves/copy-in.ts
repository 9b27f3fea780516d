// Receives files from the other host, each at a path of ours: correct pieces that are there from an earlier try are used. A
// file counts as stored when it is on the disk, and each of its pieces has the sender's digest.
import { type FileHandle, open } from 'node:fs/promises'
import type { Duplex } from 'node:stream'
import { z } from 'zod'
import { diskFull, isFull } from '../mechanics/full-disk.ts'
import type { MoveTransfer } from '../transfer/transfer.ts'
import { FrameReader, type FrameType, frameHeader, frameType, numberBytes, pieceBytes } from './frames.ts'
import { digestBytes, digestOf, digestsOf, pieceCount, rootOf } from './pieces.ts'

export interface FileToReceive {
  path: string
  /** Another length is refused before anything is written. */
  bytes: number
}

const announced = z.object({ name: z.string().max(16), bytes: z.int().min(0) })
const mostDigests = pieceBytes / digestBytes

/** Receives each of the files once; returns their digests. An error is thrown, and reported to the other host. */
export async function receiveFiles(
  transfer: MoveTransfer,
  stream: Duplex,
  files: Record<string, FileToReceive>,
): Promise<Record<string, string>> {
  const reader = new FrameReader(stream, transfer.ended)
  const send = (type: FrameType, payload: Uint8Array) =>
    transfer.send(stream, Buffer.concat([frameHeader(type, payload.length), payload]))
  const roots: Record<string, string> = {}
  try {
    while (Object.keys(roots).length < Object.keys(files).length) {
      const { name, bytes } = announced.parse(JSON.parse(String(await reader.expect(frameType.file))))
      const file = Object.hasOwn(files, name) && !(name in roots) ? files[name] : undefined
      if (!file || file.bytes !== bytes) throw new Error(`a file "${name}" of ${bytes} bytes is not expected`)
      roots[name] = await receiveFile(reader, send, file, transfer)
      await send(frameType.stored, Buffer.alloc(0))
    }
    stream.end()
    return roots
  } catch (error) {
    const why = isFull(error) ? frameType.full : frameType.refused
    await send(why, Buffer.from((error as Error).message.slice(0, 500))).catch(() => undefined)
    return diskFull(error)
  }
}

type Send = (type: FrameType, payload: Uint8Array) => Promise<void>

async function receiveFile(
  reader: FrameReader,
  send: Send,
  { path, bytes }: FileToReceive,
  transfer: MoveTransfer,
): Promise<string> {
  const file = await openAny(path)
  try {
    await file.truncate(bytes)
    const digests = await digestsOf(file, bytes, transfer.ended)
    await sendHave(send, digests)
    const root = await writePieces(reader, { file, bytes, digests }, transfer)
    await file.sync()
    if (rootOf(digests) !== root) throw new Error('what was stored is not what was sent')
    return root
  } finally {
    await file.close()
  }
}

/** For reading and writing, made if it does not exist. */
async function openAny(path: string): Promise<FileHandle> {
  return open(path, 'r+').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return open(path, 'wx+', 0o600)
    throw error
  })
}

async function sendHave(send: Send, digests: Buffer): Promise<void> {
  const step = mostDigests * digestBytes
  for (let at = 0; at < digests.length; at += step) await send(frameType.have, digests.subarray(at, at + step))
  await send(frameType.haveEnd, Buffer.alloc(0))
}

interface Receiving {
  file: FileHandle
  bytes: number
  /** The digests of what is in the file. */
  digests: Buffer
}

/** Writes what comes until the sender is done; returns the digest that the sender names. */
async function writePieces(
  reader: FrameReader,
  { file, bytes, digests }: Receiving,
  transfer: MoveTransfer,
): Promise<string> {
  for (;;) {
    const frame = await reader.next()
    if (frame?.type === frameType.done) return frame.payload.toString('utf8', 0, 2 * digestBytes)
    if (frame?.type !== frameType.piece) throw new Error('a piece was expected')
    const index = frame.payload.readUInt32BE()
    const piece = frame.payload.subarray(numberBytes)
    const at = index * pieceBytes
    if (index >= pieceCount(bytes) || piece.length !== Math.min(pieceBytes, bytes - at)) {
      throw new Error('a piece is outside its file')
    }
    digestOf(piece).copy(digests, index * digestBytes)
    await writeAll(file, piece, at)
    await transfer.pause(piece.length)
  }
}

async function writeAll(file: FileHandle, piece: Buffer, at: number): Promise<void> {
  for (let written = 0; written < piece.length; ) {
    written += (await file.write(piece, written, piece.length - written, at + written)).bytesWritten
  }
}
