// A limit on how long a call may take, joined with the caller's own signal.

const timerMaxMs = 2 ** 31 - 1

export interface Deadline extends Disposable {
  /** Aborted by the caller, or with `failure()` when the time is over. */
  readonly signal: AbortSignal
}

/** Starts the clock; `Infinity` sets no limit. Disposing stops it, the caller's signal stays in force. */
export function startDeadline(timeoutMs: number, caller: AbortSignal | undefined, failure: () => Error): Deadline {
  const over = new AbortController()
  const timer = timeoutMs <= timerMaxMs ? setTimeout(() => over.abort(failure()), timeoutMs) : undefined
  return {
    signal: caller ? AbortSignal.any([caller, over.signal]) : over.signal,
    [Symbol.dispose]: () => clearTimeout(timer),
  }
}
