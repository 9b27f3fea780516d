// Judges by what changes on a screen whether it has settled. A caret that blinks changes the same small place again and again,
// which counts as quiet. The pointer that a click has moved is drawn before the click has done anything. Pure.
import type { Point, Region } from '@dormouse/contract'

/** A caret of a large font, or a block of the console's. */
const caretPixels = 800
const placesMax = 32
/** A guest draws its pointer no farther than this from the pointer's position. */
const pointerPixels = 40
const pathMax = 256
/**
 * If nothing but the pointer has changed, the program may be about to answer. A guest that is slow to draw its pointer is slow to
 * answer, too.
 */
const pointerQuiet = { times: 8, leastMs: 500, mostMs: 3_000 }

export class Damage {
  readonly #now: () => number
  /** Small places that have changed: a second change there is a caret's. */
  #places: Region[] = []
  #startedAt: number
  #markedAt: number
  #firstAt: number | undefined
  #lastAt: number | undefined
  /** The last change that was more than the pointer. */
  #ownAt: number | undefined
  #pointer: Point | undefined
  /** Where the pointer was moved, from one place to the next. */
  #path: Region[] = []
  /** It was moved from a place that is not known, where it is erased. */
  #wasElsewhere = false

  constructor(now = () => performance.now()) {
    this.#now = now
    this.#startedAt = this.#markedAt = now()
  }

  /** From now on changes count. `pointer`: where the pointer is, if that is known. */
  start(pointer?: Point): void {
    this.#startedAt = this.#markedAt = this.#now()
    this.#firstAt = this.#lastAt = this.#ownAt = undefined
    this.#pointer = pointer
    this.#path = []
    this.#wasElsewhere = false
  }

  /** The pointer is moved there. */
  pointed(at: Point): void {
    this.#wasElsewhere ||= this.#pointer === undefined
    const from = this.#pointer ?? at
    this.#pointer = at
    this.#path = [...this.#path, around(from, at)].slice(-pathMax)
  }

  /** What comes from now on may be what the last event did. */
  mark(): void {
    this.#markedAt = this.#now()
  }

  /** An update has changed this region. */
  changed(region: Region): void {
    const isSmall = region.width * region.height <= caretPixels
    if (isSmall) {
      if (this.#places.some((place) => contains(place, region))) return
      this.#places = [...this.#places, region].slice(-placesMax)
    }
    this.#lastAt = this.#now()
    this.#firstAt ??= this.#lastAt
    const isPointer = this.#path.some((box) => contains(box, region)) || (isSmall && this.#wasElsewhere)
    if (!isPointer) this.#ownAt = this.#lastAt
  }

  /** Since the start. */
  get hasChanged(): boolean {
    return this.#lastAt !== undefined && this.#lastAt >= this.#startedAt
  }

  /** Something has changed since the mark. */
  get hasAnswered(): boolean {
    return this.#lastAt !== undefined && this.#lastAt >= this.#markedAt
  }

  /** How long nothing must change for the screen to count as settled. */
  quietFor(quietMs: number): number {
    const isOwn = this.#ownAt !== undefined && this.#ownAt >= this.#markedAt
    if (isOwn || this.#firstAt === undefined) return quietMs
    const { times, leastMs, mostMs } = pointerQuiet
    return Math.max(quietMs, Math.min(mostMs, Math.max(leastMs, times * (this.#firstAt - this.#startedAt))))
  }

  /** How long nothing has changed, from the start at the earliest. */
  get quietMs(): number {
    return this.#now() - Math.max(this.#startedAt, this.#lastAt ?? -Infinity)
  }
}

function around(a: Point, b: Point): Region {
  const [x, y] = [Math.min(a.x, b.x) - pointerPixels, Math.min(a.y, b.y) - pointerPixels]
  const [right, bottom] = [Math.max(a.x, b.x) + pointerPixels, Math.max(a.y, b.y) + pointerPixels]
  return { x, y, width: right - x, height: bottom - y }
}

const contains = (outer: Region, inner: Region): boolean =>
  inner.x >= outer.x &&
  inner.y >= outer.y &&
  inner.x + inner.width <= outer.x + outer.width &&
  inner.y + inner.height <= outer.y + outer.height
