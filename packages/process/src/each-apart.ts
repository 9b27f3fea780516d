// Does the same work for several things. None delays another, whatever becomes of it.

interface Options<T> {
  atOnce: number
  /** What the work threw for one of them. */
  failed(error: unknown, item: T): void
}

/** Returns when all are done. */
export async function eachApart<T>(
  items: Iterable<T>,
  { atOnce, failed }: Options<T>,
  work: (item: T) => Promise<unknown>,
): Promise<void> {
  const left = [...items].values()
  const next = async () => {
    for (const item of left) await work(item).catch((error: unknown) => failed(error, item))
  }
  await Promise.all(Array.from({ length: atOnce }, next))
}

/** One after the other. Throws what was thrown first, once all are done. */
export async function eachDone<T>(items: Iterable<T>, work: (item: T) => Promise<unknown>): Promise<void> {
  const errors: unknown[] = []
  await eachApart(items, { atOnce: 1, failed: (error) => errors.push(error) }, work)
  if (errors.length > 0) throw errors[0]
}
