// Waiting for work no longer than a deadline, or than its caller waits. The work itself goes on. Deadlines are on the clock
// of `performance.now()`.

/** What the work returns; undefined if that takes longer than the deadline. */
export async function before<T>(deadline: number, work: Promise<T>): Promise<T | undefined> {
  const late = Promise.withResolvers<undefined>()
  const timer = setTimeout(() => late.resolve(undefined), Math.max(0, deadline - performance.now()))
  return Promise.race([work, late.promise]).finally(() => clearTimeout(timer))
}

/** What the work returns; the signal's reason as soon as that aborts. */
export async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const aborted = Promise.withResolvers<never>()
  const abort = () => aborted.reject(signal.reason)
  if (signal.aborted) abort()
  signal.addEventListener('abort', abort, { once: true })
  try {
    return await Promise.race([work, aborted.promise])
  } finally {
    signal.removeEventListener('abort', abort)
  }
}
