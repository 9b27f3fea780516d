// Judges by what changes on a screen whether it has settled. A caret that blinks changes the same small place again and again,
// which counts as quiet. Pure.
import type { Region } from '@dormouse/contract'

/** A caret of a large font, or a block of the console's. */
const caretPixels = 800
const placesMax = 32

export class Damage {
  readonly #now: () => number
  /** Small places that have changed: a second change there is a caret's. */
  #places: Region[] = []
  #startedAt: number
  #markedAt: number
  #lastAt: number | undefined

  constructor(now = () => performance.now()) {
    this.#now = now
    this.#startedAt = this.#markedAt = now()
  }

  /** From now on changes count. */
  start(): void {
    this.#startedAt = this.#markedAt = this.#now()
    this.#lastAt = undefined
  }

  /** What comes from now on may be what the last event did. */
  mark(): void {
    this.#markedAt = this.#now()
  }

  /** An update has changed this region. */
  changed(region: Region): void {
    if (region.width * region.height <= caretPixels) {
      if (this.#places.some((place) => contains(place, region))) return
      this.#places = [...this.#places, region].slice(-placesMax)
    }
    this.#lastAt = this.#now()
  }

  /** Since the start. */
  get hasChanged(): boolean {
    return this.#lastAt !== undefined && this.#lastAt >= this.#startedAt
  }

  /** Something has changed since the mark. */
  get hasAnswered(): boolean {
    return this.#lastAt !== undefined && this.#lastAt >= this.#markedAt
  }

  /** How long nothing has changed, from the start at the earliest. */
  get quietMs(): number {
    return this.#now() - Math.max(this.#startedAt, this.#lastAt ?? -Infinity)
  }
}

const contains = (outer: Region, inner: Region): boolean =>
  inner.x >= outer.x &&
  inner.y >= outer.y &&
  inner.x + inner.width <= outer.x + outer.width &&
  inner.y + inner.height <= outer.y + outer.height
