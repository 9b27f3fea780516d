// Decides how far the log of events can be read. Knows no database.
//
// Numbers are drawn from a sequence while the changed row is locked, so they have the order of the commits of that row. But a
// number can appear after a higher one, and a transaction that rolled back leaves a gap. So a reader that finds a gap takes a
// transaction id. Each number below those that it has seen was drawn by a transaction with a lower id: a transaction has its id
// before it draws. Once none of those is in progress, what is still missing will never appear. Without a gap, nothing is waited
// for. (The `xmax` of a snapshot is no such id: higher ones may be in progress.)

/** One look at the log, in one snapshot. */
export interface Look {
  /** The numbers above the position, ascending. */
  seqs: number[]
  /** The lowest transaction id in progress. */
  xmin: number
}

export class Settled {
  /** Every number up to here has been seen, or will never appear. */
  position: number
  /** What is missing below `seq` can be of transactions below `xid` only; null until that is known. */
  #gap: { seq: number; xid: number | null } | undefined

  constructor(position: number) {
    this.position = position
  }

  /** Whether something that is committed cannot be read yet. */
  get waits(): boolean {
    return this.#gap !== undefined
  }

  /** Whether a transaction id is needed, taken after the last look. */
  get wantsId(): boolean {
    return this.#gap?.xid === null
  }

  took(xid: number): void {
    if (this.#gap) this.#gap.xid ??= xid
  }

  /** Moves the position; returns how many of the numbers are settled now. */
  take({ seqs, xmin }: Look): number {
    const whole = this.#gap && this.#gap.xid !== null && xmin >= this.#gap.xid ? this.#gap.seq : this.position
    let count = 0
    for (const seq of seqs) {
      if (seq !== this.position + 1 && seq > whole) break
      this.position = seq
      count++
    }
    if (count === seqs.length) this.#gap = undefined
    else if (!this.#gap || this.#gap.seq <= this.position) this.#gap = { seq: seqs.at(-1)!, xid: null }
    return count
  }
}
