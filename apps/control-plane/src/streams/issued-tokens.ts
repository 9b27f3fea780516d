// What opens a screen and was given out by this replica lately: whoever shows it is no stranger, whatever others do from
// his address. Kept as hashes, each for one use, and never more than so many. Decides nothing.

const keptMax = 10_000

export class IssuedTokens {
  /** The oldest first. */
  readonly #hashes = new Set<string>()

  note(hash: Buffer): void {
    const [oldest] = this.#hashes
    if (oldest !== undefined && this.#hashes.size >= keptMax) this.#hashes.delete(oldest)
    this.#hashes.add(hash.toString('base64'))
  }

  /** Whether it was given, and not taken before. */
  take(hash: Buffer): boolean {
    return this.#hashes.delete(hash.toString('base64'))
  }
}
