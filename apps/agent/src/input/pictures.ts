// Pictures of a screen's pixels: a region of them, made smaller, as PNG.
import type { PictureSpec, Region, Size } from '@dormouse/contract'
import { type Pixels, toPng } from '../driver/picture.ts'
import type { Framebuffer } from './framebuffer.ts'

/** A region beyond the edge is cut off there; one that is wholly beyond it is the last pixel. */
export async function pictureOf(frame: Framebuffer, { region, fit }: PictureSpec): Promise<Buffer> {
  const part = inside(region ?? { x: 0, y: 0, width: frame.width, height: frame.height }, frame)
  return toPng(scaled(frame, part, fitted(part, fit)))
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

/** Each pixel is the mean of those that it stands for, so that text stays readable. */
function scaled(frame: Framebuffer, part: Region, size: Size): Pixels {
  const rgb = Buffer.allocUnsafe(size.width * size.height * 3)
  const columns = edges(part.x, part.width, size.width)
  const rows = edges(part.y, part.height, size.height)
  let at = 0
  for (let row = 0; row < size.height; row++) {
    for (let column = 0; column < size.width; column++) {
      at = mean(frame, columns[column]!, columns[column + 1]!, rows[row]!, rows[row + 1]!, rgb, at)
    }
  }
  return { ...size, rgb }
}

const edges = (from: number, length: number, count: number): number[] =>
  Array.from({ length: count + 1 }, (_, i) => from + Math.round((i * length) / count))

function mean(
  { bytes, width }: Framebuffer,
  left: number,
  right: number,
  top: number,
  bottom: number,
  rgb: Buffer,
  at: number,
): number {
  let [red, green, blue] = [0, 0, 0]
  for (let y = top; y < bottom; y++) {
    for (let i = (y * width + left) * 4, end = (y * width + right) * 4; i < end; i += 4) {
      blue += bytes[i]!
      green += bytes[i + 1]!
      red += bytes[i + 2]!
    }
  }
  const count = (right - left) * (bottom - top)
  rgb[at] = red / count
  rgb[at + 1] = green / count
  rgb[at + 2] = blue / count
  return at + 3
}
