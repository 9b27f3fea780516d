// The subject of the modes in which a guest is hostile: desktops awake on a real agent. Knows no way to be hostile.
import type { Dice } from '../dice.ts'
import type { Subject, Trial, Wish } from '../mode.ts'
import { deskCount, Stage } from './stage.ts'

/** Tries one input on the stage. */
type Trying = (stage: Stage, dice: Dice) => Promise<Trial>

export class GuestSubject implements Subject {
  readonly atOnce = deskCount
  readonly #stage: Stage
  readonly #trying: Trying

  private constructor(stage: Stage, trying: Trying) {
    this.#stage = stage
    this.#trying = trying
  }

  static async begin({ target, say }: Wish, trying: Trying): Promise<GuestSubject> {
    return new GuestSubject(await Stage.start(target, say), trying)
  }

  get pid(): number {
    return this.#stage.pid
  }

  async try(dice: Dice): Promise<Trial> {
    const ended = this.#stage.ended
    const trial = await this.#trying(this.#stage, dice)
    if (ended || !this.#stage.ended) return trial
    return { ...trial, why: [...trial.why, 'the agent ended at this input, or at one beside it'] }
  }

  verdict(): Promise<string[]> {
    return this.#stage.verdict()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#stage[Symbol.asyncDispose]()
  }
}
