// What a picture shows of a screen's pixels: a region of them, in its size and format.
import { jpegQuality, type PictureSpec, type Region, type Size } from '@dormouse/contract'
import type { Framebuffer } from './framebuffer.ts'
import type { PictureRequest } from './picture-encoder.ts'
import { fitted, jpegSize } from './scaling.ts'

/**
 * A copy of the pixels of the region. A region beyond the edge was refused before. If the screen has become smaller since, the
 * region is cut off at the edge; if it is wholly beyond the edge, it is the last pixel.
 */
export function pictureOf(frame: Framebuffer, spec: PictureSpec): PictureRequest {
  const part = inside(spec.region ?? { x: 0, y: 0, width: frame.width, height: frame.height }, frame)
  const size = fitted(part, spec.fit)
  const { format = 'png', quality = jpegQuality } = spec
  return { ...frame.copyOf(part), size: format === 'png' ? size : jpegSize(size), format, quality }
}

function inside({ x, y, width, height }: Region, frame: Size): Region {
  const [left, top] = [Math.min(x, frame.width - 1), Math.min(y, frame.height - 1)]
  return { x: left, y: top, width: Math.min(width, frame.width - left), height: Math.min(height, frame.height - top) }
}
