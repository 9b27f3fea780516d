// Pieces of work that run at the same time, so that none is left running when the caller goes on.

/** Like Promise.all, but waits for every part, even if one fails. Throws the first error in their order. */
export async function together<T extends readonly unknown[]>(
  parts: readonly [...{ [I in keyof T]: Promise<T[I]> }],
): Promise<T> {
  const outcomes = await Promise.allSettled(parts)
  for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason
  return outcomes.map((outcome) => (outcome as PromiseFulfilledResult<unknown>).value) as unknown as T
}
