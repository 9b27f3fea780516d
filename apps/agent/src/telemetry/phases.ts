// Measures the phases of wakes and hibernations from the reports of their beginnings. Knows no desktop.

interface Current {
  phase: string
  since: number
}

export class PhaseClock {
  readonly #over: (phase: string, ms: number) => void
  readonly #current = new Map<string, Current>()

  /** `over` is called with each phase that ends. */
  constructor(over: (phase: string, ms: number) => void) {
    this.#over = over
  }

  /** The operation is in this phase now. */
  note(operationId: string, phase: string): void {
    if (this.#current.get(operationId)?.phase === phase) return
    this.end(operationId)
    this.#current.set(operationId, { phase, since: performance.now() })
  }

  /** The operation's command has ended, and with it its last phase. */
  end(operationId: string): void {
    const current = this.#current.get(operationId)
    if (!current) return
    this.#current.delete(operationId)
    this.#over(current.phase, performance.now() - current.since)
  }
}
