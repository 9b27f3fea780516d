// The pixels of a screen as a client of its RFB server has them, and what an update changes of them. Pure.
import { hash } from 'node:crypto'
import type { Region, Size } from '@dormouse/contract'

const pixelBytes = 4

export class Framebuffer {
  readonly width: number
  readonly height: number
  /** Four bytes a pixel: blue, green, red, and one that says nothing. */
  readonly bytes: Buffer

  constructor({ width, height }: Size) {
    this.width = width
    this.height = height
    this.bytes = Buffer.alloc(width * height * pixelBytes)
  }

  /** Takes a rectangle of pixels; returns the smallest region that differs from before, undefined where nothing does. */
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
    const { left, right, top, bottom } = changed
    return { x: x + left, y: y + top, width: right - left + 1, height: bottom - top + 1 }
  }

  holds({ x, y, width, height }: Region): boolean {
    return x + width <= this.width && y + height <= this.height
  }

  /** Another one when the screen shows something else; the same whoever looks. */
  sequence(): string {
    return hash('sha1', Buffer.concat([Buffer.from(`${this.width}x${this.height} `), this.bytes])).slice(0, 16)
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
