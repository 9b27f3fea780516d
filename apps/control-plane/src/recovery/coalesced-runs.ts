// Runs work for one host at a time. Requests during a run are coalesced into one more run after it. A host that hangs delays
// no other.

interface Runs {
  now: Promise<void>
  next: Promise<void> | undefined
}

export class CoalescedRuns {
  readonly #hosts = new Map<string, Runs>()

  /** Resolves when a run that began after this request has ended. The work must not reject. */
  request(hostId: string, work: () => Promise<void>): Promise<void> {
    const runs = this.#hosts.get(hostId)
    if (!runs) return this.#begin(hostId, work)
    runs.next ??= runs.now.then(() => this.#begin(hostId, work))
    return runs.next
  }

  #begin(hostId: string, work: () => Promise<void>): Promise<void> {
    const runs: Runs = { now: Promise.resolve(), next: undefined }
    this.#hosts.set(hostId, runs)
    runs.now = work().finally(() => {
      if (!runs.next) this.#hosts.delete(hostId)
    })
    return runs.now
  }
}
