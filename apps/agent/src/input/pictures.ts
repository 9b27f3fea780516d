// Pictures of a screen's pixels: a region of them, made smaller, as PNG or JPEG.
import { jpegMaxPixels, jpegQuality, type PictureSpec, type Region, type Size } from '@dormouse/contract'
import { toPng } from '../driver/picture.ts'
import type { Framebuffer } from './framebuffer.ts'
import type { JpegEncoder } from './jpeg.ts'

/**
 * A region beyond the edge is refused before. Where the screen has changed its size since, it is cut off at the edge, and one that
 * is wholly beyond it is the last pixel.
 */
export async function pictureOf(frame: Framebuffer, spec: PictureSpec, jpegs: JpegEncoder): Promise<Buffer> {
  const part = inside(spec.region ?? { x: 0, y: 0, width: frame.width, height: frame.height }, frame)
  const size = fitted(part, spec.fit)
  if (spec.format !== 'jpeg') return toPng({ ...size, rgb: Buffer.from(scaled(frame, part, size, 3)) })
  const bounded = jpegSize(size)
  const rgba = scaled(frame, part, bounded, 4)
  return jpegs.encode({ ...bounded, rgba, quality: spec.quality ?? jpegQuality })
}

function inside({ x, y, width, height }: Region, frame: Size): Region {
  const [left, top] = [Math.min(x, frame.width - 1), Math.min(y, frame.height - 1)]
  return { x: left, y: top, width: Math.min(width, frame.width - left), height: Math.min(height, frame.height - top) }
}

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

/** Each pixel is the mean of those that it stands for, so that text stays readable. */
function scaled(frame: Framebuffer, part: Region, size: Size, pixelBytes: 3 | 4): ArrayBuffer {
  const pixels = new Uint8Array(size.width * size.height * pixelBytes)
  const columns = edges(part.x, part.width, size.width)
  const rows = edges(part.y, part.height, size.height)
  let at = 0
  for (let row = 0; row < size.height; row++) {
    for (let column = 0; column < size.width; column++) {
      mean(frame, columns[column]!, columns[column + 1]!, rows[row]!, rows[row + 1]!, pixels, at)
      at += pixelBytes
    }
  }
  return pixels.buffer
}

const edges = (from: number, length: number, count: number): number[] =>
  Array.from({ length: count + 1 }, (_, i) => from + Math.round((i * length) / count))

function mean(
  { bytes, width }: Framebuffer,
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
      blue += bytes[i]!
      green += bytes[i + 1]!
      red += bytes[i + 2]!
    }
  }
  const count = (right - left) * (bottom - top)
  pixels[at] = red / count
  pixels[at + 1] = green / count
  pixels[at + 2] = blue / count
}
