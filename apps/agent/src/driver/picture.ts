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

const headBytes = 512

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

/** Undefined where more bytes are needed. */
function headOf(bytes: Buffer): { width: number; height: number; length: number } | undefined {
  const found = /^P6\s(?:#.*\n)*(\d{1,9})\s+(\d{1,9})\s+255\s/.exec(bytes.toString('latin1', 0, headBytes))
  if (!found) return undefined
  const [width, height] = [Number(found[1]), Number(found[2])]
  if (width === 0 || height === 0) return refuseBroken()
  return width * height > screenPixelsMax ? refuse('screen_too_large') : { width, height, length: found[0].length }
}

const refuseBroken = (): never => refuse('hypervisor_failed', 'the hypervisor’s picture of the screen is not whole')
