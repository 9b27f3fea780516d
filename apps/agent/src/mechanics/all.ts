// Several pieces of work at once, of which none goes on when the caller continues.

/** Like Promise.all, but settles only when every part has; a failure is that of the first part that has failed. */
export async function all<T extends readonly unknown[]>(parts: { [K in keyof T]: Promise<T[K]> }): Promise<T> {
  const ended = await Promise.allSettled(parts)
  for (const part of ended) if (part.status === 'rejected') throw part.reason
  return ended.map((part) => (part as PromiseFulfilledResult<unknown>).value) as unknown as T
}
