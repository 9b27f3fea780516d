// The pixels of a screen, and how they are read from the hypervisor's format. Its length is bounded before anything is kept.
import type { Readable } from 'node:stream'
import { refuse, screenPixelsMax } from '@dormouse/contract'

export interface ScreenPixels {
  width: number
  height: number
  /** Three bytes a pixel, or four of which the last says nothing. */
  order: 'rgb' | 'bgrx'
  pixels: ArrayBuffer
}

/** A picture that the hypervisor has encoded itself. */
export interface ScreenPng {
  png: Buffer
}

const headBytes = 512
/** Signature, length and name of the first chunk, width, height. */
const pngHeadBytes = 24
const pngSignature = Buffer.from('\x89PNG\r\n\x1a\n', 'latin1')
const pngEnd = Buffer.from('\0\0\0\0IEND\xae\x42\x60\x82', 'latin1')
/** No encoder makes a picture larger than its pixels by more than this part. */
const pngBytesMax = Math.ceil(screenPixelsMax * 4 * 1.01)

/** Reads a PNG. Refuses one that is too large by its head, and one that is not whole. */
export async function readPng(stream: Readable): Promise<ScreenPng> {
  const chunks: Buffer[] = []
  let bytes = 0
  let isChecked = false
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    chunks.push(chunk)
    bytes += chunk.length
    if (bytes > pngBytesMax) return refuseBroken()
    if (isChecked || bytes < pngHeadBytes) continue
    requirePngHead(Buffer.concat(chunks))
    isChecked = true
  }
  const png = Buffer.concat(chunks)
  return isChecked && png.subarray(-pngEnd.length).equals(pngEnd) ? { png } : refuseBroken()
}

function requirePngHead(head: Buffer): void {
  if (!head.subarray(0, pngSignature.length).equals(pngSignature) || head.toString('latin1', 12, 16) !== 'IHDR')
    refuseBroken()
  const [width, height] = [head.readUInt32BE(16), head.readUInt32BE(20)]
  if (width === 0 || height === 0) refuseBroken()
  if (width * height > screenPixelsMax) refuse('screen_too_large')
}

/** Reads a binary PPM (`P6`, 8 bits a colour). Refuses one that is too large by its head, and one that is not whole. */
export async function readPpm(stream: Readable): Promise<ScreenPixels> {
  let head: Buffer | undefined = Buffer.alloc(0)
  let picture: ScreenPixels | undefined
  let at = 0
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    let body = chunk
    if (head) {
      head = Buffer.concat([head, chunk])
      const found = headOf(head)
      if (!found && head.length > headBytes) return refuseBroken()
      if (!found) continue
      const { width, height } = found
      picture = { width, height, order: 'rgb', pixels: new ArrayBuffer(width * height * 3) }
      body = head.subarray(found.length)
      head = undefined
    }
    if (!picture || at + body.length > picture.pixels.byteLength) return refuseBroken()
    new Uint8Array(picture.pixels).set(body, at)
    at += body.length
  }
  return picture && at === picture.pixels.byteLength ? picture : refuseBroken()
}

/** Undefined if more bytes are needed. */
function headOf(bytes: Buffer): { width: number; height: number; length: number } | undefined {
  const found = /^P6\s(?:#.*\n)*(\d{1,9})\s+(\d{1,9})\s+255\s/.exec(bytes.toString('latin1', 0, headBytes))
  if (!found) return undefined
  const [width, height] = [Number(found[1]), Number(found[2])]
  if (width === 0 || height === 0) return refuseBroken()
  return width * height > screenPixelsMax ? refuse('screen_too_large') : { width, height, length: found[0].length }
}

const refuseBroken = (): never => refuse('hypervisor_failed', 'the hypervisor’s picture of the screen is not whole')
