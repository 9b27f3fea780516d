// Makes pictures smaller. Pure.
import { jpegMaxPixels, type Size } from '@dormouse/contract'
import type { ScreenPixels } from './framebuffer.ts'

/** The largest size of the same shape whose longer side is at most `fit`. Nothing is made larger. */
export function fitted({ width, height }: Size, fit: number | undefined): Size {
  const scale = Math.min(1, (fit ?? Infinity) / Math.max(width, height))
  return { width: Math.max(1, Math.round(width * scale)), height: Math.max(1, Math.round(height * scale)) }
}

/** Encoding takes time for each pixel. */
export function jpegSize(size: Size): Size {
  const { width, height } = size
  return fitted(size, Math.max(width, height) * Math.sqrt(jpegMaxPixels / (width * height)))
}

/** Red, green and blue. Each pixel is the mean of those that it stands for, so that text stays readable. */
export function scaled({ size, ...from }: ScreenPixels & { size: Size }, pixelBytes: 3 | 4): Uint8Array<ArrayBuffer> {
  const pixels = new Uint8Array(size.width * size.height * pixelBytes)
  const columns = edges(from.width, size.width)
  const rows = edges(from.height, size.height)
  const bytes = new Uint8Array(from.pixels)
  let at = 0
  for (let row = 0; row < size.height; row++) {
    for (let column = 0; column < size.width; column++) {
      mean(bytes, from, columns[column]!, columns[column + 1]!, rows[row]!, rows[row + 1]!, pixels, at)
      at += pixelBytes
    }
  }
  return pixels
}

const edges = (length: number, count: number): number[] =>
  Array.from({ length: count + 1 }, (_, i) => Math.round((i * length) / count))

function mean(
  bytes: Uint8Array,
  { width }: Size,
  left: number,
  right: number,
  top: number,
  bottom: number,
  pixels: Uint8Array,
  at: number,
): void {
  let [red, green, blue] = [0, 0, 0]
  for (let y = top; y < bottom; y++) {
    for (let i = (y * width + left) * 4, end = (y * width + right) * 4; i < end; i += 4) {
      red += bytes[i + 2]!
      green += bytes[i + 1]!
      blue += bytes[i]!
    }
  }
  const count = (right - left) * (bottom - top)
  pixels[at] = red / count
  pixels[at + 1] = green / count
  pixels[at + 2] = blue / count
}
