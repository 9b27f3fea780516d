// What every process of a stack has logged. An error or an alarm that no test foresaw fails the test that caused it.

export interface Line {
  level: number
  msg: string
  [fact: string]: unknown
}

const errorLevel = 50

export class Chronicle {
  readonly lines: Line[] = []
  readonly #foreseen: RegExp[] = []
  readonly #dead = new Set<unknown>()

  write(text: string): void {
    this.lines.push(JSON.parse(text) as Line)
  }

  /** Errors whose message fits are part of what the test does. */
  foresee(...messages: RegExp[]): void {
    this.#foreseen.push(...messages)
  }

  /** What a killed process goes on to say is not heard: a real one would say nothing. */
  bury(life: string): void {
    this.#dead.add(life)
  }

  find(message: RegExp): Line[] {
    return this.lines.filter((line) => message.test(line.msg))
  }

  /** Errors that nobody foresaw. */
  get surprises(): Line[] {
    return this.lines.filter(
      (line) =>
        line.level >= errorLevel &&
        !this.#dead.has(line.life) &&
        !isOrdered(line) &&
        !this.#foreseen.some((known) => known.test(line.msg)),
    )
  }
}

/** A failpoint's own error is what its test asked for, wherever it is told. */
const isOrdered = ({ err }: Line): boolean => (err as { name?: string } | undefined)?.name === 'FailpointError'
