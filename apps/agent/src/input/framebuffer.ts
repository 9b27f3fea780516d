// The pixels of a screen as a client of its RFB server has them, and what an update changes of them. Pure.
import { createHash } from 'node:crypto'
import type { Region, Size } from '@dormouse/contract'

const pixelBytes = 4

/** Four bytes a pixel: blue, green, red, and one without meaning. */
export interface ScreenPixels extends Size {
  pixels: ArrayBuffer
}

export class Framebuffer {
  readonly width: number
  readonly height: number
  /** Four bytes a pixel: blue, green, red, and one without meaning. */
  readonly bytes: Buffer
  /** The digest of what is shown now; undefined until it is needed. */
  #sequence: string | undefined

  constructor({ width, height }: Size) {
    this.width = width
    this.height = height
    this.bytes = Buffer.alloc(width * height * pixelBytes)
  }

  /** Takes a rectangle of pixels; returns the smallest region that differs from before, undefined if nothing does. */
  put({ x, y, width, height }: Region, pixels: Buffer): Region | undefined {
    const changed = { left: width, right: -1, top: -1, bottom: -1 }
    for (let row = 0; row < height; row++) {
      const from = row * width * pixelBytes
      const at = ((y + row) * this.width + x) * pixelBytes
      const next = pixels.subarray(from, from + width * pixelBytes)
      const before = this.bytes.subarray(at, at + width * pixelBytes)
      if (next.equals(before)) continue
      if (changed.top < 0) changed.top = row
      changed.bottom = row
      changed.left = Math.min(changed.left, firstDifference(next, before))
      changed.right = Math.max(changed.right, lastDifference(next, before))
      next.copy(before)
    }
    if (changed.top < 0) return undefined
    this.#sequence = undefined
    const { left, right, top, bottom } = changed
    return { x: x + left, y: y + top, width: right - left + 1, height: bottom - top + 1 }
  }

  holds({ x, y, width, height }: Region): boolean {
    return x + width <= this.width && y + height <= this.height
  }

  /** Another one when the screen shows something else; the same whoever looks. */
  sequence(): string {
    this.#sequence ??= createHash('sha1')
      .update(`${this.width}x${this.height} `)
      .update(this.bytes)
      .digest('hex')
      .slice(0, 16)
    return this.#sequence
  }

  copyOf({ x, y, width, height }: Region): ScreenPixels {
    const pixels = new ArrayBuffer(width * height * pixelBytes)
    const copy = new Uint8Array(pixels)
    for (let row = 0; row < height; row++) {
      const from = ((y + row) * this.width + x) * pixelBytes
      copy.set(this.bytes.subarray(from, from + width * pixelBytes), row * width * pixelBytes)
    }
    return { width, height, pixels }
  }
}

function firstDifference(a: Buffer, b: Buffer): number {
  let at = 0
  while (a[at] === b[at]) at++
  return Math.floor(at / pixelBytes)
}

function lastDifference(a: Buffer, b: Buffer): number {
  let at = a.length - 1
  while (a[at] === b[at]) at--
  return Math.floor(at / pixelBytes)
}
