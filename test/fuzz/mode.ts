// The interface of each mode of `npm run fuzz`: who sends, to whom, and what was wrong with the replies. Knows no protocol.
import type { Dice } from './dice.ts'

/** A service that runs already, instead of one that is started for the run. */
export interface Target {
  url: string
  key: string
  operatorKey?: string | undefined
}

export interface Wish {
  seed: number
  target?: Target | undefined
  say(line: string): void
}

/** One way to be hostile. */
export interface Mode {
  name: string
  /** Who sends what, to whom; one line of `--help`. */
  about: string
  /** Whether it can misuse a service that runs already. */
  remote: boolean
  begin(wish: Wish): Promise<Subject>
}

/** What is misused, ready for its first input. Disposing of it ends what was started for the run. */
export interface Subject extends AsyncDisposable {
  /** How many inputs are under way at once. */
  atOnce: number
  /** Tries the input that these choices make. */
  try(dice: Dice): Promise<Trial>
  /** After the last input: in sentences what is wrong with the subject as a whole. */
  verdict(): Promise<string[]>
  /** The process that is misused, if it is not ours: its memory and open files are shown. */
  pid?: number | undefined
}

export interface Trial {
  /** The kind of the input. */
  kind: string
  /** What came back, in words to be counted. */
  came: string[]
  /** What was wrong, in sentences. */
  why: string[]
  /** All that `--only` shows of it. */
  shown: object
}
