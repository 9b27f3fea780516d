// Scales the coordinates of a batch to the screen, and divides a pointer's path into steps. Pure.
import type { Point, Size } from '@dormouse/contract'

/** The pixel of the screen that is meant by one of the space; undefined if that is outside. Never clamped. */
export function onScreen({ x, y }: Point, space: Size, screen: Size): Point | undefined {
  if (x >= space.width || y >= space.height) return undefined
  return { x: scaled(x, space.width, screen.width), y: scaled(y, space.height, screen.height) }
}

/** The middle of the pixel of the space; its last pixel is never beyond the screen's last. */
const scaled = (at: number, space: number, screen: number): number =>
  space === screen ? at : Math.min(screen - 1, Math.floor(((at + 0.5) * screen) / space))

/** A drag moves step by step, as a hand does: this many pixels a step, and at most this many steps. */
const stepPixels = 40
const mostSteps = 12

/** A drag that jumps at once begins where it lands: programs take the place of the first movement. */
const firstPixels = [2, 8]

/** The places on the way of a drag, which begins with small steps. */
export function dragBetween(from: Point, to: Point): Point[] {
  const distance = Math.hypot(to.x - from.x, to.y - from.y)
  const first = firstPixels
    .filter((pixels) => pixels < distance)
    .map((pixels) => ({
      x: Math.round(from.x + ((to.x - from.x) * pixels) / distance),
      y: Math.round(from.y + ((to.y - from.y) * pixels) / distance),
    }))
  return [...first, ...pathBetween(first.at(-1) ?? from, to)]
}

/** The places on the way, with the last and without the first. */
export function pathBetween(from: Point, to: Point): Point[] {
  const [dx, dy] = [to.x - from.x, to.y - from.y]
  const steps = Math.min(mostSteps, Math.max(1, Math.ceil(Math.hypot(dx, dy) / stepPixels)))
  return Array.from({ length: steps }, (_, i) => ({
    x: Math.round(from.x + (dx * (i + 1)) / steps),
    y: Math.round(from.y + (dy * (i + 1)) / steps),
  }))
}
