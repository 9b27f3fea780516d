// The timeout of a call, combined with the caller's own signal.

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
