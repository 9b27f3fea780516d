// The timeout of a call, combined with the caller's own signal, and what of it one attempt is told.

const timerMaxMs = 2 ** 31 - 1

export interface Deadline extends Disposable {
  /** Aborted by the caller, or with `failure()` at the timeout. */
  readonly signal: AbortSignal
}

/** Starts the timer; `Infinity` sets none. Disposing stops it; the caller's signal still aborts. */
export function startDeadline(timeoutMs: number, caller: AbortSignal | undefined, failure: () => Error): Deadline {
  const over = new AbortController()
  const timer = timeoutMs <= timerMaxMs ? setTimeout(() => over.abort(failure()), timeoutMs) : undefined
  return {
    signal: caller ? AbortSignal.any([caller, over.signal]) : over.signal,
    [Symbol.dispose]: () => clearTimeout(timer),
  }
}

/**
 * Aborted with the signal until it is disposed of. An attempt that has failed must hear of no abort: after a response 101 that
 * names no protocol, Node's `fetch` throws where nobody can catch it, and the process ends.
 */
export function attemptOf(signal: AbortSignal): Disposable & { readonly signal: AbortSignal } {
  const attempt = new AbortController()
  const abort = () => attempt.abort(signal.reason)
  if (signal.aborted) abort()
  signal.addEventListener('abort', abort, { once: true })
  return { signal: attempt.signal, [Symbol.dispose]: () => signal.removeEventListener('abort', abort) }
}
