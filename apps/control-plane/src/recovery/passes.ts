// One piece of care for a host at a time: a wish that comes during one makes one more after it, and never two. A host that
// hangs keeps no other waiting.

interface Passes {
  now: Promise<void>
  next: Promise<void> | undefined
}

export class PassesByHost {
  readonly #hosts = new Map<string, Passes>()

  /** Resolves when a pass that began after this wish has ended. The work must not reject. */
  ask(hostId: string, work: () => Promise<void>): Promise<void> {
    const passes = this.#hosts.get(hostId)
    if (!passes) return this.#begin(hostId, work)
    passes.next ??= passes.now.then(() => this.#begin(hostId, work))
    return passes.next
  }

  #begin(hostId: string, work: () => Promise<void>): Promise<void> {
    const passes: Passes = { now: Promise.resolve(), next: undefined }
    this.#hosts.set(hostId, passes)
    passes.now = work().finally(() => {
      if (!passes.next) this.#hosts.delete(hostId)
    })
    return passes.now
  }
}
