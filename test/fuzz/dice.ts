// Chance that can be had again: the same seed and number make the same choices. Knows no HTTP.

export class Dice {
  #state: number

  /** Each numbered input has dice of its own, so that one can be made without those before it. */
  constructor(seed: number, at = 0) {
    this.#state = Math.imul(seed ^ 0x9e3779b9, 0x85ebca6b) ^ Math.imul(at + 1, 0xc2b2ae35)
  }

  /** From 0 up to, and without, `below`. */
  int(below: number): number {
    return Math.floor(this.#next() * below)
  }

  /** True as often as that, of 1. */
  chance(part: number): boolean {
    return this.#next() < part
  }

  pick<T>(all: readonly T[]): T {
    return all[this.int(all.length)] as T
  }

  many<T>(most: number, make: () => T): T[] {
    return Array.from({ length: this.int(most + 1) }, make)
  }

  bytes(most: number): Buffer {
    return Buffer.from(this.many(most, () => this.int(256)))
  }

  /** mulberry32 */
  #next(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}
