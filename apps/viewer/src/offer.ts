// The text that the page offers to its desktop. After a start or a wake the guest's own part of the clipboard comes up
// late and hears of nothing that was offered before: so what nobody asked for is offered again, for a while.

const againEveryMs = 2_000
const whileMs = 30_000

export class Offer {
  readonly #say: (text: string) => void
  #text: string | undefined
  #repeating: ReturnType<typeof setInterval> | undefined

  constructor(say: (text: string) => void) {
    this.#say = say
  }

  make(text: string): void {
    this.#text = text
    this.#say(text)
  }

  /** The desktop asked for it, or has copied something else: nobody has to be told again. */
  settle(): void {
    this.#text = undefined
  }

  /** The desktop is there from now on, or is not. */
  enable(isLive: boolean): void {
    clearInterval(this.#repeating)
    this.settle()
    if (!isLive) return
    const ends = performance.now() + whileMs
    this.#repeating = setInterval(() => {
      if (this.#text !== undefined) this.#say(this.#text)
      if (performance.now() > ends) clearInterval(this.#repeating)
    }, againEveryMs)
  }
}
