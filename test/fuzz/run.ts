// Tries the inputs of one subject, several at a time, and counts. Knows neither what is misused nor how it is shown.
import { diceOf } from './dice.ts'
import type { Subject, Trial } from './mode.ts'

export interface Fault {
  at: number
  kind: string
  why: string[]
}

export interface Tally {
  inputs: number
  /** What came back, by its word. */
  byAnswer: Record<string, number>
  byKind: Record<string, number>
  faults: Fault[]
}

/** More of them say nothing new. */
const keptFaults = 50

export class Fuzz {
  readonly tally: Tally = { inputs: 0, byAnswer: {}, byKind: {}, faults: [] }
  readonly #subject: Subject
  readonly #seed: number
  #next = 0

  constructor(subject: Subject, seed: number) {
    this.#subject = subject
    this.#seed = seed
  }

  /** Tries inputs until this many are tried, or until the signal says enough. */
  async run(count: number, enough: AbortSignal = new AbortController().signal): Promise<void> {
    const last = this.#next + count
    const work = async () => {
      while (this.#next < last && !enough.aborted) await this.try(this.#next++)
    }
    await Promise.all(Array.from({ length: this.#subject.atOnce }, work))
  }

  /** Tries one input by its number. */
  async try(at: number): Promise<Trial> {
    const trial = await this.#subject.try(diceOf(this.#seed, at))
    this.#count(at, trial)
    return trial
  }

  #count(at: number, { kind, came, why }: Trial): void {
    const { tally } = this
    tally.inputs++
    add(tally.byKind, kind)
    for (const word of came) add(tally.byAnswer, word)
    if (why.length > 0 && tally.faults.length < keptFaults) tally.faults.push({ at, kind, why })
  }
}

function add(counts: Record<string, number>, name: string): void {
  counts[name] = (counts[name] ?? 0) + 1
}
