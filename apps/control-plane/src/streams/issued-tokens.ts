// Remembers tokens and tickets that this replica issued lately: a client that presents one is not counted by its address.
// Kept as hashes, each for one use, at most `keptMax`. Admits nobody by itself.

const keptMax = 10_000

export class IssuedTokens {
  /** The oldest first. */
  readonly #hashes = new Set<string>()

  note(hash: Buffer): void {
    const [oldest] = this.#hashes
    if (oldest !== undefined && this.#hashes.size >= keptMax) this.#hashes.delete(oldest)
    this.#hashes.add(hash.toString('base64'))
  }

  /** Whether it was issued, and not taken before. */
  take(hash: Buffer): boolean {
    return this.#hashes.delete(hash.toString('base64'))
  }
}
