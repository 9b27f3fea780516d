// The turns of those who talk to one guest's agent, which takes one call at a time. Knows nothing of what they say.

export class AgentTurns {
  #tail: Promise<unknown> = Promise.resolve()
  #failedAt = 0
  #failure: unknown

  /**
   * Runs one call after the other. Where one throws what `mute` recognises, nobody who waited meanwhile has to find out
   * anew: they fail with it.
   */
  run<T>(call: () => Promise<T>, mute: (error: unknown) => boolean): Promise<T> {
    const askedAt = performance.now()
    const mine = this.#tail.then(async () => {
      if (this.#failedAt > askedAt) throw this.#failure
      try {
        return await call()
      } catch (error) {
        if (mute(error)) [this.#failedAt, this.#failure] = [performance.now(), error]
        throw error
      }
    })
    this.#tail = mine.catch(() => undefined)
    return mine
  }
}
