// Names that are remembered for a time.

export class Forgetful {
  readonly #forMs: number
  readonly #until = new Map<string, number>()

  constructor(forMs: number) {
    this.#forMs = forMs
  }

  add(name: string): void {
    this.#until.set(name, performance.now() + this.#forMs)
  }

  names(): string[] {
    const now = performance.now()
    for (const [name, until] of this.#until) if (until <= now) this.#until.delete(name)
    return [...this.#until.keys()]
  }
}
