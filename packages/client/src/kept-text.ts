// What is kept of a command's output: its beginning and its end, with a note of what is left out between them.

export class KeptText {
  readonly #half: number
  readonly #decoder = new TextDecoder()
  #head = ''
  #tail = ''
  #leftOut = 0

  /** This many characters at most, beside the note. */
  constructor(length: number) {
    this.#half = Math.floor(length / 2)
  }

  get isTruncated(): boolean {
    return this.#leftOut > 0
  }

  add(bytes: Uint8Array): void {
    this.#append(this.#decoder.decode(bytes, { stream: true }))
  }

  /** This many bytes are missing here: more was printed than the guest keeps. */
  skip(bytes: number): void {
    this.#leftOut += bytes
  }

  /** The text; nothing is added after that. */
  end(): string {
    this.#append(this.#decoder.decode())
    if (!this.isTruncated) return this.#head + this.#tail
    return `${this.#head}\n… ${this.#leftOut} characters left out …\n${this.#tail}`
  }

  #append(text: string): void {
    const space = this.#tail === '' && !this.isTruncated ? this.#half - this.#head.length : 0
    this.#head += text.slice(0, space)
    const rest = this.#tail + text.slice(space)
    const over = Math.max(0, rest.length - this.#half)
    this.#leftOut += over
    this.#tail = rest.slice(over)
  }
}
