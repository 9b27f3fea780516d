// Digests of an inventory, one for each bucket of desktops: what the leader has compared before is not sent again.
import { createHash } from 'node:crypto'
import { bucketOf, inventoryBuckets, type Observation } from '@dormouse/contract'

/** By bucket. Equal digests mean equal items, apart from their reasons. */
export function digestsOf(items: readonly Observation[]): string[] {
  const lines = Array.from({ length: inventoryBuckets }, (): string[] => [])
  for (const { desktopId, generation, turn, domain, memory, disk } of items)
    lines[bucketOf(desktopId)]?.push(JSON.stringify([desktopId, generation, turn, domain, memory, disk]))
  return lines.map((bucket) => createHash('sha256').update(bucket.sort().join('\n')).digest('hex'))
}

/** The items of the buckets that differ from the leader's. */
export function unknownItems(
  items: readonly Observation[],
  digests: readonly string[],
  known: readonly string[],
): Observation[] {
  return items.filter(({ desktopId }) => {
    const bucket = bucketOf(desktopId)
    return digests[bucket] !== known[bucket]
  })
}
