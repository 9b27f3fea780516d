// What every process of a house has logged. An error or an alarm that no test foresaw fails the test that caused it.
import type { DestinationStream } from 'pino'

export interface Line {
  level: number
  msg: string
  [fact: string]: unknown
}

const errorLevel = 50

export class Chronicle implements DestinationStream {
  readonly lines: Line[] = []
  readonly #foreseen: RegExp[] = []

  write(text: string): void {
    this.lines.push(JSON.parse(text) as Line)
  }

  /** Errors whose message fits are part of what the test does. */
  foresee(...messages: RegExp[]): void {
    this.#foreseen.push(...messages)
  }

  find(message: RegExp): Line[] {
    return this.lines.filter((line) => message.test(line.msg))
  }

  /** Errors that nobody foresaw. */
  get surprises(): Line[] {
    return this.lines.filter(
      (line) => line.level >= errorLevel && !this.#foreseen.some((known) => known.test(line.msg)),
    )
  }
}
