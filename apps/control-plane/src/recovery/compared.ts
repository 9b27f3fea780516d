// What was compared before and agreed: the digests of a host's inventory, and those of the database's rows, by bucket of
// desktops. In memory: after a change of leader everything is compared once. Knows no host.
import { inventoryBuckets } from '@dormouse/contract'

/** By bucket; undefined if there is nothing. */
type Digests = readonly (string | undefined)[]

interface Agreed {
  host: string
  rows: string | undefined
}

export class Compared {
  readonly #agreed = new Map<string, Map<number, Agreed>>()

  /** The host's digests of the buckets whose rows have not changed since they agreed; empty for the others. */
  known(hostId: string, rows: Digests): string[] {
    const agreed = this.#agreed.get(hostId)
    return Array.from({ length: inventoryBuckets }, (_, bucket) => {
      const before = agreed?.get(bucket)
      return before && before.rows === rows[bucket] ? before.host : ''
    })
  }

  /** Stores the outcome of a comparison: `differs` names the buckets that do not agree, or cannot be judged yet. */
  note(hostId: string, host: readonly string[], rows: Digests, differs: ReadonlySet<number>): void {
    const agreed = new Map<number, Agreed>()
    for (const [bucket, digest] of host.entries())
      if (!differs.has(bucket)) agreed.set(bucket, { host: digest, rows: rows[bucket] })
    this.#agreed.set(hostId, agreed)
  }
}
