// Gathers small pieces that wait for a reader. Each Buffer costs a hundred bytes of memory beside its content, so a sender of
// single bytes could otherwise occupy many times its window.

const smallBytes = 1024
const mostBytes = 16 * 1024

export class SmallPieces {
  #gathered: Buffer | undefined
  #bytes = 0

  /** Copies the piece behind the others. False if it is large, or nothing more fits: take what is gathered first. */
  add(piece: Buffer): boolean {
    if (piece.length >= smallBytes || this.#bytes + piece.length > mostBytes) return false
    this.#gathered ??= Buffer.allocUnsafeSlow(mostBytes)
    this.#bytes += piece.copy(this.#gathered, this.#bytes)
    return true
  }

  /** What is gathered, in order; undefined if nothing is. */
  take(): Buffer | undefined {
    if (!this.#gathered) return undefined
    // A copy: a part would hold the memory of the whole.
    const taken = Buffer.from(this.#gathered.subarray(0, this.#bytes))
    this.#gathered = undefined
    this.#bytes = 0
    return taken
  }
}
